"""A campaign in small, in this process and as it runs where a machine is lent."""

import json
import shutil
import signal
import subprocess
import tarfile

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")
safetensors = pytest.importorskip("safetensors")

from models.train import campaign as campaigns  # noqa: E402
from models.train import checkpoint, lent  # noqa: E402
from models.train import development, trainer as training  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.batches import Pairs, Position, batches_from  # noqa: E402
from models.train.campaign import Campaign  # noqa: E402
from models.train.pack import pack, unpack  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.recipe import read_recipe  # noqa: E402
from models.train.sentences import Sentences, as_bytes, text_of  # noqa: E402
from models.train.vocabulary import ByteVocabulary, open_vocabulary  # noqa: E402

SIZES = {"encoder_layers": 2, "decoder_layers": 1, "width": 16, "heads": 2, "inner": 32}
SHORT = [{"max_length": 24, "batch_tokens": 600}]
RECIPE = {
    "name": "test", "source": "de", "target": "en", "level": "token", "preset": SIZES,
    "norm": "pre", "vocabulary": 350, "held_out_sentences": 20,
    "mix": {"people": {"share": 1.0, "corpora": {"*": 1}}}, "phases": SHORT,
}
PLAN = {
    "every": {"preset": SIZES, "phases": SHORT, "warmup_steps": 5},
    "reverse": {"seconds": 0.5},
    "back": {"sentences": 30},
    "teacher": {"seconds": 0.5, "shares": {"back": 1.0}},
    "distilled": {"sentences": 25},
    "token": {"seconds": 0.5, "shares": {"back": 0.5, "distilled": 1.0}},
    "char": {"seconds": 0.5, "level": "char", "shares": {"back": 1.0},
             "phases": [{"max_length": 80, "batch_tokens": 900}]},
}
MONO = [f"Taht si a {word} stset." for word in "doog dab dlo wen der gib llams ynit".split() * 5]


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    """Compiling takes longer than a test; an untrained model never ends a sentence."""
    monkeypatch.setattr(training.area, "fuse", lambda: None)
    monkeypatch.setattr(development, "DEVELOPMENT_SENTENCES", 2)
    for module in (development, campaigns):
        monkeypatch.setattr(module, "LONGEST_TRANSLATION", {"token": 12, "char": 20})
    torch.set_num_threads(1)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGTERM, before[0])
    signal.signal(signal.SIGINT, before[1])


@pytest.fixture(scope="module")
def packed(tmp_path_factory, corpora):
    """(the prepared folder, the archive made of it and of MONO, the plan)."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    prepare(folder / "recipe.json", corpora, corpora / "eval", folder / "prepared")
    (folder / "mono.txt").write_text("\n".join([*MONO, "", MONO[0]]) + "\n")
    (folder / "plan.json").write_text(json.dumps(PLAN))
    assert main(["pack", str(folder / "prepared"), str(folder / "mono.txt"), "--most", "7",
                 "--out", str(folder / "de.tar.xz")]) == 0
    return folder / "prepared", folder / "de.tar.xz", folder / "plan.json"


def test_sentences_are_kept_flat():
    rows = [[5, 6], [], [7]]
    sentences = Sentences.join([Sentences.of(rows), Sentences.of([]), Sentences.of([[8, 9]])])
    assert [sentences[i].tolist() for i in range(len(sentences))] == [*rows, [8, 9]]
    taken = sentences.take([3, 1])
    assert [taken[i].tolist() for i in range(len(taken))] == [[8, 9], []]


def test_pieces_are_spelled_in_bytes(packed):
    vocabulary = open_vocabulary("token", packed[0])
    lines = ["A dog.", " two  spaces ", "Ünïcödé 😀 ☃", "", "1 234", "a"]
    sentences = Sentences.of(vocabulary.encode(line) for line in lines)
    expected = [vocabulary.decode(sentences[i].tolist()) for i in range(len(lines))]
    assert expected[0] == "A dog." and "😀" in expected[2]
    assert list(text_of(sentences, vocabulary)) == expected
    spelled = as_bytes(sentences, vocabulary)
    assert [ByteVocabulary("").decode(spelled[i].tolist()) for i in range(len(lines))] == expected


def test_a_pack_holds_a_prepared_run_and_plain_text(packed, tmp_path):
    prepared, archive, _ = packed
    unpack(archive, tmp_path)
    with np.load(prepared / "train.npz") as ours, np.load(tmp_path / "pack/train.npz") as theirs:
        assert set(ours.files) == set(theirs.files)
        assert all((ours[name] == theirs[name]).all() for name in ours.files)
    for path in prepared.rglob("*.*"):
        if path.name != "train.npz":
            copy = tmp_path / "pack" / path.relative_to(prepared)
            assert copy.read_bytes() == path.read_bytes()
    with np.load(tmp_path / "pack/mono.npz") as arrays:
        text = Sentences(arrays["mono_ids"], arrays["mono_offsets"])
    lines = list(text_of(text, open_vocabulary("token", prepared)))
    assert len(lines) == 7 and set(lines) <= set(MONO)


def test_a_pack_leaves_out_what_machines_translated(packed, tmp_path):
    prepared, _, _ = packed
    shutil.copytree(prepared, tmp_path / "prepared")
    sources = json.loads((prepared / "sources.json").read_text())
    sources["corpora"] = {"tatoeba.distilled": {"pairs": 1}} | sources["corpora"]
    (tmp_path / "prepared/sources.json").write_text(json.dumps(sources))
    with np.load(prepared / "train.npz") as arrays:
        arrays = dict(arrays)
    human = arrays["origin"].copy()
    arrays["origin"] = human + 1
    arrays["origin"][:5] = 0
    np.savez(tmp_path / "prepared/train.npz", **arrays)
    pack(tmp_path / "prepared", [], 0, tmp_path / "de.tar.xz")
    unpack(tmp_path / "de.tar.xz", tmp_path)
    assert list(origins_of(tmp_path / "pack")) == ["msdocs-made-up-HT", "tatoeba"]
    with np.load(tmp_path / "pack/train.npz") as found:
        assert (found["origin"] == human[5:]).all()
        assert (found["en_ids"] == arrays["en_ids"][arrays["en_offsets"][5] :]).all()


def test_plain_text_that_repeats_evaluation_text_is_left_out(packed, tmp_path):
    prepared, _, _ = packed
    evaluated = [line for name in ("eval/newstest2013.de", "heldout/tatoeba.de")
                 for line in (prepared / name).read_text().splitlines()]
    (tmp_path / "mono.txt").write_text("\n".join([*map(str.upper, evaluated), *MONO]) + "\n")
    pack(prepared, [tmp_path / "mono.txt"], 7, tmp_path / "de.tar.xz")
    unpack(tmp_path / "de.tar.xz", tmp_path)
    with np.load(tmp_path / "pack/mono.npz") as arrays:
        text = Sentences(arrays["mono_ids"], arrays["mono_offsets"])
    lines = list(text_of(text, open_vocabulary("token", prepared)))
    assert len(lines) == 7 and set(lines) <= set(MONO)


def origins_of(folder):
    return json.loads((folder / "sources.json").read_text())["corpora"]


def test_a_campaign_makes_models_and_their_text(packed, tmp_path, monkeypatch):
    _, archive, plan = packed
    unpack(archive, tmp_path)
    campaign = Campaign(tmp_path, str(plan))
    monkeypatch.setattr(campaigns, "PART_SENTENCES", 10)
    monkeypatch.setattr(campaigns, "worth_training_on", lambda english, *_: range(len(english)))
    assert campaign.run()
    languages = {stage: tuple(json.loads((tmp_path / stage / "prepared/recipe.json").read_text())
                              [side] for side in ("source", "target"))
                 for stage in ("reverse", "teacher", "token", "char")}
    assert languages == {"reverse": ("de", "en"), "teacher": ("en", "de"), "token": ("en", "de"),
                         "char": ("en", "de")}
    human = origins_of(tmp_path / "reverse/prepared")
    assert set(human) == {"tatoeba", "msdocs-made-up-HT"}
    assert set(origins_of(tmp_path / "teacher/prepared")) == {*human, "campaign.back"}
    for stage in ("token", "char"):
        made = origins_of(tmp_path / stage / "prepared")
        assert made["campaign.back"]["pairs"] == 7
        assert made["campaign.distilled"]["pairs"] == 25
    for stage, kind in (("token", "MarianTokenizer"), ("char", "ByteTokenizer")):
        config = json.loads((tmp_path / stage / "model/config.json").read_text())
        assert (config["model_type"], config["encoder_layers"]) == ("m2m_100", 2)
        tokenizer = json.loads((tmp_path / stage / "model/tokenizer_config.json").read_text())
        assert (tokenizer["tokenizer_class"], tokenizer["source_lang"]) == (kind, "en")
    made_at = (tmp_path / "token/model/config.json").stat().st_mtime_ns
    assert campaign.run()  # there is nothing left to do
    assert (tmp_path / "token/model/config.json").stat().st_mtime_ns == made_at


@pytest.mark.parametrize("level", ["token", "char"])
def test_what_machines_wrote_is_tagged(packed, tmp_path, level, monkeypatch):
    """Every source of back-translated pairs, and no other, begins with the tag."""
    _, archive, plan = packed
    unpack(archive, tmp_path)
    campaign = Campaign(tmp_path, str(plan))
    monkeypatch.setattr(campaign, "trained", lambda _: None)
    monkeypatch.setattr(campaigns, "translate_ids",
                        lambda model, vocabulary, rows, longest: [row[::-1] for row in rows])
    monkeypatch.setattr(campaigns, "worth_training_on", lambda english, *_: range(len(english)))
    campaign.translate("back", "reverse", "de", campaign.packed("mono"))
    campaign.prepare(level, tmp_path / level / "prepared")
    recipe = read_recipe(tmp_path / level / "prepared/recipe.json")
    vocabulary = open_vocabulary(level, tmp_path / level / "prepared")
    pairs = Pairs(tmp_path / level / "prepared", recipe)
    written = {tuple(pairs.target(i)) for i in np.flatnonzero(pairs.tagged)}
    assert len(written) == 7
    batches, tagged = batches_from(Position(), pairs, recipe, vocabulary), 0
    for _ in range(20):
        _, source, target = next(batches)
        assert source.shape[1] * len(source) <= recipe.phases[0].batch_tokens
        for begins, row in zip(source[:, 0].tolist(), target.tolist()):
            ids = tuple(i for i in row if i not in (vocabulary.end, vocabulary.pad))
            assert (begins == vocabulary.tag) == (ids in written)
            tagged += begins == vocabulary.tag
    assert tagged > 0


def test_a_translation_goes_on_where_it_was_interrupted(packed, tmp_path, monkeypatch):
    _, archive, plan = packed
    unpack(archive, tmp_path)
    campaign, translated = Campaign(tmp_path, str(plan)), []
    monkeypatch.setattr(campaign, "trained", lambda _: None)
    monkeypatch.setattr(campaigns, "PART_SENTENCES", 3)
    monkeypatch.setattr(campaigns, "worth_training_on", lambda english, *_: range(len(english)))

    def once(model, vocabulary, rows, longest):
        if len(translated) == 2:
            translated.append("stopped")
            signal.raise_signal(signal.SIGTERM)
        translated.append(len(rows))
        return rows

    monkeypatch.setattr(campaigns, "translate_ids", once)
    monkeypatch.setattr(campaign, "train", lambda stage: None)
    campaign.plan = {"back": campaign.plan["back"]}
    assert not campaign.run()
    assert translated == [3, 3, "stopped"]
    assert campaign.run()
    assert translated == [3, 3, "stopped", 1]
    with np.load(tmp_path / "back/pairs.npz") as arrays:
        assert arrays["en_ids"].tolist() == arrays["de_ids"].tolist()


def test_a_training_goes_on_where_it_was_interrupted(packed, tmp_path, monkeypatch):
    _, archive, plan = packed
    unpack(archive, tmp_path)
    campaign, step = Campaign(tmp_path, str(plan)), training.Trainer.train_step
    campaign.plan = {"token": campaign.plan["token"]}

    def last(trainer):
        step(trainer)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(training.Trainer, "train_step", last)
    assert main(["campaign", str(tmp_path), "--plan", str(plan)]) == 130
    assert not (tmp_path / "teacher").exists()
    shutil.rmtree(tmp_path / "reverse")
    assert not campaign.run()  # before the first evaluation: there is nothing to export
    assert not (tmp_path / "token/model").exists()
    assert checkpoint.load(tmp_path / "token/checkpoint.pt")["step"] == 1
    monkeypatch.setattr(training.Trainer, "train_step", step)
    assert campaign.run()
    assert checkpoint.load(tmp_path / "token/checkpoint.pt")["step"] > 1
    assert (tmp_path / "token/model/config.json").exists()


def test_only_pairs_that_a_corpus_would_have_are_learnt(packed):
    vocabulary = open_vocabulary("token", packed[0])
    pairs = [("A dog sees 2 cats.", "2 Katzen da."), ("A dog.", "A dog."),
             ("Old 3 men.", "Alte 4."), ("", "Nichts."), ("My small cat.", "Taht si a tac.")]
    sides = [Sentences.of(vocabulary.encode(side) for side in column) for column in zip(*pairs)]
    assert campaigns.worth_training_on(*sides, vocabulary) == [0, 4]


def test_a_lent_machine_gives_back_what_is_new(packed, tmp_path, monkeypatch):
    """Interrupted at once, then with time enough: processes of their own, without a compiler."""
    _, archive, plan = packed
    monkeypatch.setenv("PATH", "")
    quick = tmp_path / "plan.json"
    quick.write_text(json.dumps({"every": PLAN["every"], "token": PLAN["token"]}))
    monkeypatch.setattr(lent, "LARGEST_FILE", 20_000)
    lent.run_for(0.0, [archive], tmp_path, str(quick), tmp_path / "first")
    assert list((tmp_path / "first").iterdir()) == []
    lent.run_for(5.0, [archive], tmp_path, str(quick), tmp_path / "second")
    parts = sorted((tmp_path / "second").iterdir())
    assert [p.name for p in parts] == [f"de-token.tar.xz.{i}" for i in range(len(parts))]
    assert len(parts) > 1 and all(p.stat().st_size <= 20_000 for p in parts)
    (tmp_path / "whole.tar.xz").write_bytes(b"".join(p.read_bytes() for p in parts))
    with tarfile.open(tmp_path / "whole.tar.xz") as file:
        names = file.getnames()
    assert {"de-token/model/config.json", "de-token/model/model.safetensors",
            "de-token/log.jsonl"} <= set(names)
    lent.run_for(5.0, [archive], tmp_path, str(quick), tmp_path / "third")
    assert list((tmp_path / "third").iterdir()) == []


@pytest.mark.parametrize("asked, options", [(["--threads", "1"], ["--threads", "1"]), ([], [])])
def test_every_campaign_has_the_threads_that_were_asked_for(packed, tmp_path, monkeypatch, asked,
                                                            options):
    started, popen = [], lent.subprocess.Popen

    def start(command):
        started.append(command)
        return popen(["true"])

    monkeypatch.setattr(lent.subprocess, "Popen", start)
    assert main(["campaign", str(tmp_path), "--packs", str(packed[1]), "--minutes", "0.01", "--out",
                 str(tmp_path / "out"), *asked]) == 0
    assert [command[command.index("--plan") + 2 :] for command in started] == [options]


def test_nothing_is_at_work_when_models_are_given_back(monkeypatch):
    monkeypatch.setattr(lent, "GRACE_SECONDS", 0.1)
    deaf = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; exec sleep 60"],
                            stdout=subprocess.PIPE)
    deaf.stdout.readline()
    lent.end([deaf])
    assert deaf.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mistake, message", [
    ({"tokens": {}}, "plan.json: expected one of every, reverse, .* found tokens"),
    ({"back": {}}, "plan.json: back: expected sentences, found no such key"),
    ({"token": {"seconds": 0}}, "plan.json: token.seconds: expected a number from 0.01 to"),
    ({"token": {"seconds": 1, "shares": {"bakc": 1}}},
     "plan.json: token.shares: expected one of back, distilled, found bakc"),
    ({"char": {"seconds": 1, "flat_step": 3}}, "plan.json: char: unknown key flat_step"),
    ({"char": {"seconds": 1, "level": "bytes"}}, "plan.json: char: level: expected token or"),
])
def test_mistakes_in_a_plan_are_found_before_its_first_stage(packed, tmp_path, mistake, message):
    unpack(packed[1], tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN | mistake))
    with pytest.raises(ValueError, match=message):
        Campaign(tmp_path, str(tmp_path / "plan.json"))


def test_a_plan_that_is_not_there_is_told_from_those_that_are(packed, tmp_path, capsys):
    unpack(packed[1], tmp_path)
    for name in ("h100", "h100.json"):
        assert main(["campaign", str(tmp_path), "--plan", name]) == 1
        assert f"--plan {name}: no such plan; there are h200\n" in capsys.readouterr().err


def test_the_plans_are_valid(packed, tmp_path):
    unpack(packed[1], tmp_path)
    for plan in campaigns.PLANS.glob("*.json"):
        assert set(Campaign(tmp_path, plan.stem).plan) == set(campaigns.STAGES)


def test_a_pack_that_is_none_starts_no_campaign(packed, tmp_path, monkeypatch):
    (tmp_path / "fr.tar.xz").write_text("cut off")
    monkeypatch.setattr(lent.subprocess, "Popen", lambda _: pytest.fail("a campaign was started"))
    with pytest.raises(ValueError, match="fr.tar.xz: expected what pack writes, a .tar.xz, found"):
        lent.run_for(1.0, [packed[1], tmp_path / "fr.tar.xz"], tmp_path, "", tmp_path / "out")


def test_a_campaign_that_cannot_be_started_leaves_no_other(packed, tmp_path, monkeypatch):
    started, popen = [], subprocess.Popen

    def start(_):
        if started:
            raise OSError("out of memory")
        started.append(popen(["sleep", "60"]))
        return started[0]

    shutil.copy(packed[1], tmp_path / "fr.tar.xz")
    monkeypatch.setattr(lent.subprocess, "Popen", start)
    with pytest.raises(OSError, match="out of memory"):
        lent.run_for(1.0, [packed[1], tmp_path / "fr.tar.xz"], tmp_path, "", tmp_path / "out")
    assert started[0].returncode == -signal.SIGTERM


def test_a_campaign_that_cannot_save_at_its_end_is_an_error(packed, tmp_path, monkeypatch):
    popen = subprocess.Popen
    monkeypatch.setattr(lent.subprocess, "Popen", lambda _: popen(
        ["sh", "-c", f"trap 'exit 1' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"]))
    monkeypatch.setattr(lent.time, "monotonic", lambda: 1e9 * (tmp_path / "up").exists())
    with pytest.raises(ValueError, match="de failed; what is done is kept"):
        lent.run_for(1.0, [packed[1]], tmp_path, "", tmp_path / "out")


@pytest.mark.parametrize("command, is_well", [
    ("exit 130", True), ("exit 143", True), ("kill -TERM $$", True), ("exit 0", True),
    ("exit 1", False), ("kill -KILL $$", False)])
def test_a_campaign_that_was_interrupted_has_not_failed(packed, tmp_path, monkeypatch, command,
                                                        is_well):
    popen = subprocess.Popen
    monkeypatch.setattr(lent.subprocess, "Popen", lambda _: popen(["sh", "-c", command]))
    arguments = ["campaign", str(tmp_path), "--packs", str(packed[1]), "--minutes", "1", "--out",
                 str(tmp_path / "out")]
    assert main(arguments) == (0 if is_well else 1)


def test_a_campaign_that_fails_is_an_error(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"every": {"preset": "huge"}, "token": PLAN["token"]}))
    with pytest.raises(ValueError, match="de failed; what is done is kept"):
        lent.run_for(5.0, [packed[1]], tmp_path, str(plan), tmp_path / "out")
