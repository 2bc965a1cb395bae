"""A whole run in small: prepare, train, be interrupted, go on, cool down, export."""

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")
safetensors = pytest.importorskip("safetensors")

from models.train import card, checkpoint, corpus, evaluate, export, folder  # noqa: E402
from models.train import trainer as training  # noqa: E402
from models.train.__main__ import main, say_what_is_ignored  # noqa: E402
from models.train.batches import Pairs, Position, Sampler, Stream  # noqa: E402
from models.train.evaluate import whole_rows  # noqa: E402
from models.train.inherit import inherit, inherit_pieces  # noqa: E402
from models.train.parent import check_parent, check_pieces, output_scales  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.recipe import SHIPPED, Phase, find_recipe, read_recipe  # noqa: E402
from models.train.schedule import Cooldown, learning_rate  # noqa: E402
from models.train.shape import shape_of  # noqa: E402
from models.train.trainer import Trainer, extend  # noqa: E402
from models.train.vocabulary import ByteVocabulary, PieceVocabulary  # noqa: E402
from models.train.vocabulary import open_vocabulary  # noqa: E402

RECIPE = {
    "name": "test", "source": "en", "target": "de", "level": "token", "preset": "tiny",
    "vocabulary": 350, "held_out_sentences": 20, "samples": ["A dog sees the house."],
    "mix": {"everyday": {"share": 0.7, "corpora": {"tatoeba": 1}},
            "it": {"share": 0.3, "corpora": {"*": 1}}},
    "phases": [{"max_length": 96, "batch_tokens": 400}],
}
AREAS = {"token": "eq3", "char": "eq9"}
DEEPER_THAN_TINY = {"encoder_layers": 4, "decoder_layers": 3, "width": 128, "heads": 4,
                    "inner": 512}


@pytest.fixture(scope="module", params=["token-post", "token-pre", "char-post", "char-pre"])
def run(request, tmp_path_factory, corpora):
    folder = tmp_path_factory.mktemp(request.param)
    recipe = folder / "recipe.json"
    level, norm = request.param.split("-")
    recipe.write_text(json.dumps(
        RECIPE | {"level": level, "norm": norm, "area": AREAS[level]}))
    prepare(recipe, corpora, corpora / "eval", folder / "prepared")
    return folder


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    """An untrained model never ends a sentence: keep evaluations short. Compiling takes longer
    than all of a test's steps."""
    monkeypatch.setattr(training.area, "fuse", lambda: None)
    monkeypatch.setattr(training, "DEVELOPMENT_SENTENCES", 4)
    monkeypatch.setattr(training, "LONGEST_TRANSLATION", {"token": 20, "char": 40})
    torch.set_num_threads(1)


@pytest.fixture
def recipe(run):
    return read_recipe(run / "prepared" / "recipe.json")


@pytest.fixture
def pairs(run, recipe):
    return Pairs(run / "prepared", recipe)


def weights(trainer):
    return torch.cat([p.detach().flatten() for p in trainer.model.parameters()])


def train(trainer, steps):
    trainer.model.train()
    for _ in range(steps):
        trainer.train_step()
    return weights(trainer)


def test_held_out_sentences_are_not_in_training(run, recipe, pairs):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    trained = {corpus.normalised(vocabulary.decode(pairs.source(i).tolist()))
               for i in range(len(pairs.origin))}
    for name in ("heldout/tatoeba.en", "heldout/it.en", "eval/newstest2013.en"):
        lines = (run / "prepared" / name).read_text(encoding="utf-8").splitlines()
        assert lines and not trained & {corpus.normalised(line) for line in lines}


def test_vocabulary_round_trip(run, recipe):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    ids = vocabulary.encode("A dog sees the house.")
    assert vocabulary.decode(ids + [vocabulary.end, vocabulary.pad]) == "A dog sees the house."
    assert max(ids) < vocabulary.size
    if recipe.level == "token" and recipe.norm == "pre":
        assert [vocabulary.names[i] for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
        assert (vocabulary.size, vocabulary.pad, vocabulary.end) == (350, 1, 2)
    elif recipe.level == "token":
        assert (vocabulary.ids["</s>"], vocabulary.ids["<unk>"]) == (0, 1)
        assert vocabulary.pad == vocabulary.size - 1 == 349
    else:
        assert (vocabulary.pad, vocabulary.end, ids[0]) == (0, 1, 2 + ord("A"))


def test_either_language_is_the_source(tmp_path, corpora):
    """The same text and vocabulary the other way round: pairs are swapped, all else is alike."""
    folders = tmp_path / "forth", tmp_path / "back"
    for folder, languages in zip(folders, (("en", "de"), ("de", "en"))):
        recipe = tmp_path / f"{folder.name}.json"
        recipe.write_text(json.dumps(RECIPE | dict(zip(("source", "target"), languages))))
        prepare(recipe, corpora, corpora / "eval", folder,
                vocabulary=None if folder is folders[0] else folders[0])
    for name in PieceVocabulary.files:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    forth, back = (Pairs(folder, read_recipe(folder / "recipe.json")) for folder in folders)
    vocabulary = open_vocabulary("token", folders[1])
    for i in range(0, len(forth.origin), 97):
        assert forth.source(i).tolist() == back.target(i).tolist()
        assert forth.target(i).tolist() == back.source(i).tolist()
    read = {vocabulary.decode(back.source(i).tolist()) for i in range(len(back.origin))}
    lines = (corpora / "tatoeba.en-de.tsv").read_text(encoding="utf-8").splitlines()
    assert sum(line.split("\t")[1] in read for line in lines) > 0.8 * len(lines)
    evaluated = [whole_rows(evaluate.read_set(folder / "heldout" / "tatoeba", read_recipe(
        folder / "recipe.json")), vocabulary, read_recipe(folder / "recipe.json"))
        for folder in folders]
    assert evaluated[0] == evaluated[1][::-1]


def test_a_vocabulary_of_the_other_layout_is_refused(tmp_path, corpora):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    prepare(recipe, corpora, corpora / "eval", tmp_path / "post")
    recipe.write_text(json.dumps(RECIPE | {"norm": "pre"}))
    with pytest.raises(ValueError, match="expected <s>, <pad>, </s>, <unk> where layers are pre-n"):
        prepare(recipe, corpora, corpora / "eval", tmp_path / "pre", vocabulary=tmp_path / "post")


def test_chunks_follow_the_mix_and_the_batch_size(pairs, recipe):
    sampler = Sampler(pairs, recipe.phases[0], seed=1)
    batches = sampler.chunk(0)
    totals = {}
    for batch in batches:
        assert sampler.lengths[batch].max() * len(batch) <= recipe.phases[0].batch_tokens
        for index in batch:
            name = pairs.origins[pairs.origin[index]]
            totals[name] = totals.get(name, 0) + pairs.target_lengths[index]
    assert totals["tatoeba"] / sum(totals.values()) == pytest.approx(0.7, abs=0.02)


def test_every_pair_has_its_turn_before_any_returns(pairs, recipe):
    sampler = Sampler(pairs, recipe.phases[0], seed=1)
    drawn = np.concatenate([sampler.drawn(0, chunk) for chunk in range(2)])
    size = len(sampler.members[0])
    assert sorted(drawn[:size]) == sorted(sampler.members[0])


def test_short_phase_holds_short_pairs(pairs):
    sampler = Sampler(pairs, Phase(max_length=20, batch_tokens=200), seed=1)
    assert all(sampler.lengths[batch].max() <= 20 for batch in sampler.chunk(0))


def test_batches_of_a_grid_have_whole_rows(run, recipe):
    grid = dataclasses.replace(recipe, area={"encoder_self": {"memory_height": 3},
                                             "decoder_cross": {"memory_height": 2}})
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    pairs = Pairs(run / "prepared", grid)
    sampler = Sampler(pairs, grid.phases[0], seed=1)
    batches = sampler.chunk(0)
    for batch in batches:
        (length,) = set(pairs.source_lengths[batch])
        assert length % 6 == 0
        assert sampler.lengths[batch].max() * len(batch) <= grid.phases[0].batch_tokens
    whole = set(np.flatnonzero((pairs.source_lengths % 6 == 0) & (sampler.lengths <= 96)))
    assert set(np.concatenate(batches)) == whole
    source, _ = Stream(pairs, grid, vocabulary, Position()).next()
    assert source.shape[1] % 6 == 0 and (source != vocabulary.pad).all()


def test_a_grid_that_no_pair_fills_is_an_error(run, recipe):
    grid = dataclasses.replace(recipe, area={"decoder_cross": {"memory_height": 97}})
    pairs = Pairs(run / "prepared", grid)
    with pytest.raises(ValueError, match="phases: expected pairs of at most 96 ids .* of 97 "):
        Sampler(pairs, grid.phases[0], seed=1)


def test_evaluations_of_a_grid_leave_out_what_has_no_whole_rows(run, recipe):
    vocabulary = open_vocabulary("char", run / "prepared")
    sides = ["a", "bc", "def", "ghij"], "1234"
    for rows, kept in ((1, [0, 1, 2, 3]), (2, [0, 2]), (3, [1]), (9, [])):
        grid = dataclasses.replace(recipe, area={"decoder_cross": {"memory_height": rows}})
        assert whole_rows(sides, vocabulary, grid) == [[side[i] for i in kept] for side in sides]


def test_stream_continues_at_any_position(run, pairs, recipe):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    stream = Stream(pairs, recipe, vocabulary, Position())
    for _ in range(3):
        stream.next()
    other = Stream(pairs, recipe, vocabulary, dataclasses.replace(stream.position))
    for ours, theirs in zip(stream.next(), other.next()):
        assert torch.equal(ours, theirs)


def test_pairs_made_by_machines_need_a_tag(run, pairs, recipe):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    pairs.tagged[0] = True
    if recipe.level == "token" and recipe.norm == "post":
        with pytest.raises(ValueError, match=".back: expected the vocabulary of a pre-norm model"):
            Stream(pairs, recipe, vocabulary, Position())
    else:
        Stream(pairs, recipe, vocabulary, Position()).next()


def test_interrupted_run_equals_uninterrupted(run):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    whole = train(Trainer(run), 6)
    first = Trainer(run)
    train(first, 3)
    first.save()
    second = Trainer(run)
    assert second.step == 3
    assert torch.equal(train(second, 3), whole)


def test_stalls_do_not_count_as_hours(run, monkeypatch):
    trainer = Trainer(run)
    if trainer.device.type != "cpu":
        pytest.skip("hours on a GPU are wall time")
    before, started, following = trainer.seconds, time.monotonic(), trainer.stream.next

    def stalled():
        time.sleep(0.5)
        return following()

    monkeypatch.setattr(trainer.stream, "next", stalled)
    train(trainer, 1)
    assert 0 < trainer.seconds - before < time.monotonic() - started - 0.4
    assert trainer.meter.seconds == pytest.approx(trainer.seconds - before)


@pytest.mark.parametrize("found", ["nan", "inf"])
def test_a_gradient_that_is_no_number_ends_the_run(run, monkeypatch, found):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    before, loss = weights(trainer), trainer.loss
    trainer.save()
    monkeypatch.setattr(trainer, "loss", lambda *sides: loss(*sides) * float(found))
    with pytest.raises(ValueError, match="step 1: expected a finite gradient, found one of norm "):
        trainer.run(cooldown_steps=2)
    assert torch.equal(weights(trainer), before) and trainer.step == 0
    assert all(w.isfinite().all() for w in checkpoint.load(run / "checkpoint.pt")["model"].values())


def test_killed_while_saving_keeps_the_old_checkpoint(run, monkeypatch):
    checkpoint.save_atomically({"step": 1}, run / "kill.pt")

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save_atomically({"step": 2}, run / "kill.pt")
    assert checkpoint.load(run / "kill.pt")["step"] == 1


def test_a_checkpoint_of_another_vocabulary_is_refused(run, recipe, tmp_path):
    shutil.copytree(run / "prepared", tmp_path / "prepared")
    trainer = Trainer(tmp_path)
    trainer.evaluate()
    trainer.save()
    assert Trainer(tmp_path).step == 0
    if recipe.level == "char":
        return
    path = tmp_path / "prepared" / "vocab.json"
    ids = json.loads(path.read_text())
    names = {number: piece for piece, number in ids.items()}
    ids[names[5]], ids[names[6]] = 6, 5
    path.write_text(json.dumps(ids))
    known, found = trainer.vocabulary.fingerprint, PieceVocabulary(path.parent).fingerprint
    message = f"vocabulary: expected {found}, that of {path.parent}, found {known}: "
    with pytest.raises(ValueError, match=f"checkpoint.pt: {message}"):
        Trainer(tmp_path)
    with pytest.raises(ValueError, match=f"best.pt: {message}"):
        export.export(tmp_path, tmp_path / "model")
    state = checkpoint.load(tmp_path / "checkpoint.pt")
    del state["vocabulary"]  # as in older checkpoints
    checkpoint.save_atomically(state, tmp_path / "checkpoint.pt")
    assert Trainer(tmp_path).step == 0


def test_a_run_that_gets_no_better_cools_down(run, monkeypatch):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    scores = iter((3.0, 4.0, 2.0, 2.0, 2.0))
    monkeypatch.setattr(training, "bleu", lambda *_: next(scores))
    monkeypatch.setattr(training, "DEVELOPMENT_SETS", ("heldout/tatoeba",))
    trainer = Trainer(run)
    trainer.recipe = dataclasses.replace(trainer.recipe, patience=3, cooldown_part=0.2)
    train(trainer, 8)
    waited = []
    for _ in range(5):
        trainer.evaluate()
        trainer.cool_down_early()
        waited.append(trainer.waited)
        trainer.save()
        assert (trainer.cooldown is None) == (len(waited) < 5)
        trainer.resume(run / "checkpoint.pt")
    assert waited == [0, 0, 1, 2, 0]  # once it cools down, it waits no more
    assert (trainer.cooldown.start, trainer.cooldown.steps) == (8, 2)
    trainer.resume(run / "before-cooldown.pt")
    assert trainer.cooldown is None and trainer.waited == 0


def test_a_cool_down_is_undone_once(run, monkeypatch):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    train(trainer, 1)
    trainer.begin_cooldown(3)
    train(trainer, 1)
    trainer.save()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        extend(run, trainer.recipe, None)
    assert checkpoint.load(run / "checkpoint.pt")["step"] == 2
    trainer.recipe = dataclasses.replace(trainer.recipe, cooldown_part=0.5)
    hours = checkpoint.load(run / "before-cooldown.pt")["seconds"] / 3600
    extend(run, trainer.recipe, 1.9 * hours)
    assert Trainer(run).step == 2  # it would begin again at once
    extend(run, trainer.recipe, 2.1 * hours)
    trainer = Trainer(run)
    assert trainer.step == 1 and trainer.cooldown is None
    train(trainer, 2)
    trainer.save()
    extend(run, trainer.recipe, None)
    assert Trainer(run).step == 3


@pytest.mark.parametrize("asked, other", [((None, 3), (None, 4)), ((9.0, None), (10.0, None))])
def test_a_cool_down_that_was_extended_into_is_not_undone(run, asked, other):
    """An interrupted command, said again, goes on; another, or after the end, undoes it."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    train(trainer, 1)
    trainer.begin_cooldown(2)
    train(trainer, 1)
    trainer.save()
    for given, step in ((asked, 1), (asked, 2), (other, 1), (other, 2), (asked, 1)):
        extend(run, trainer.recipe, *given)
        trainer = Trainer(run)
        assert trainer.step == step
        if step == 1:
            trainer.begin_cooldown(3)
            train(trainer, 1)
            trainer.save()
    assert trainer.run()
    extend(run, trainer.recipe, *asked)
    assert Trainer(run).step == 1


@pytest.mark.parametrize("step, state", [(7, "is cooling down"), (11, "has cooled down")])
def test_what_a_cool_down_ignores_is_said(capsys, step, state):
    def say(hours, cooldown, extend=False):
        say_what_is_ignored(argparse.Namespace(hours=hours, cooldown=cooldown, extend=extend),
                            trainer)

    trainer = argparse.Namespace(cooldown=Cooldown(7, 4), finished=lambda: step == 11)
    said = f"train: --hours 2.5 and --cooldown 300 ignored: the run {state}, from step 7 to 11"
    for extended in (False, True):
        say(2.5, 300, extended)
        hint = "" if extended else "; --extend undoes that"
        assert capsys.readouterr().out == f"{said}{hint}\n"
    say(None, None)
    trainer.cooldown = None
    say(2.5, None)
    assert capsys.readouterr().out == ""


def test_another_cool_down_is_not_undone(tmp_path):
    with pytest.raises(FileNotFoundError, match="no before-cooldown.pt; the run never cooled"):
        extend(tmp_path, None, None)
    checkpoint.save_atomically({"step": 5, "cooldown": None}, tmp_path / "before-cooldown.pt")
    checkpoint.save_atomically({"step": 9, "cooldown": {"start": 7, "steps": 4}},
                               tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="before-cooldown.pt: step: expected 7, .* found 5"):
        extend(tmp_path, None, None)


def test_what_an_undone_cool_down_reached_is_kept(run, monkeypatch):
    """Patience counts what came before the cool-down: plain steps score less than its end."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    scores = iter((3.0, 9.0, 4.0, 8.0, 10.0))
    monkeypatch.setattr(training, "bleu", lambda *_: next(scores))
    monkeypatch.setattr(training, "DEVELOPMENT_SETS", ("heldout/tatoeba",))
    trainer = Trainer(run)
    trainer.evaluate()
    train(trainer, 1)
    trainer.begin_cooldown(3)
    trainer.evaluate()
    trainer.save()
    extend(run, trainer.recipe, None)
    trainer, kept = Trainer(run), []
    for _ in range(3):
        train(trainer, 1)
        trainer.evaluate()
        assert trainer.waited == 0
        kept.append(checkpoint.load(run / "best.pt")["bleu"]["tatoeba"])
        trainer.begin_cooldown(1)
    assert kept == [9.0, 9.0, 10.0]


def test_loss_falls_then_the_run_cools_down_and_exports(run, recipe):
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer = Trainer(run)
    train(trainer, 2)
    early = trainer.meter.loss / trainer.meter.count
    train(trainer, 30)
    assert trainer.run(cooldown_steps=4)
    assert trainer.step == 36 and (run / "before-cooldown.pt").exists()
    assert trainer.meter.loss / trainer.meter.count < early
    assert Trainer(run).finished()
    last = json.loads((run / "log.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 36 and "tatoeba" in last["bleu"]
    check_export(run, recipe)


@pytest.mark.parametrize("method", ["train_step", "evaluate"])
def test_a_run_that_is_stopped_at_its_end_is_not_finished(run, monkeypatch, method):
    """The last step and the final evaluation are done, and what is left is done another time."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    trainer, before = Trainer(run), signal.getsignal(signal.SIGTERM)
    original = getattr(trainer, method)

    def stopped():
        original()
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(trainer, method, stopped)
    assert not trainer.run(cooldown_steps=1)
    assert signal.getsignal(signal.SIGTERM) == before
    (run / "best.pt").unlink(missing_ok=True)
    again = Trainer(run)
    assert again.finished() and again.run()
    assert checkpoint.load(run / "best.pt")["step"] == 1


def check_export(run, recipe):
    from safetensors.torch import load_file

    export.export(run, run / "model")
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["area"]["decoder_cross"] == {"width": [5, 5]}
    assert config["area"]["key"] == {"token": "mean", "char": "concat"}[recipe.level]
    tensors = load_file(run / "model" / "model.safetensors")
    assert tensors["model.shared.weight"].shape == (config["vocab_size"], config["d_model"])
    if recipe.norm == "post":
        assert tensors["final_logits_bias"].shape == (1, config["vocab_size"])
        assert config["decoder_start_token_id"] == config["pad_token_id"]
    else:
        assert "final_logits_bias" not in tensors
        assert tensors["model.decoder.layer_norm.weight"].shape == (config["d_model"],)
        assert config["decoder_start_token_id"] == config["eos_token_id"]
    assert config["model_type"] == {"post": "marian", "pre": "m2m_100"}[recipe.norm]
    assert not tensors["model.shared.weight"][config["pad_token_id"]].any()
    assert all(tensor.dtype == torch.bfloat16 for tensor in tensors.values())
    files = {path.name for path in (run / "model").iterdir()}
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    assert files == {"config.json", "generation_config.json", "model.safetensors", "README.md",
                     "tokenizer_config.json", *vocabulary.files}
    languages = json.loads((run / "model" / "tokenizer_config.json").read_text())
    assert (languages["source_lang"], languages["target_lang"]) == (recipe.source, recipe.target)


def test_lstms_are_trained_by_the_same_commands(tmp_path, corpora, monkeypatch):
    monkeypatch.setattr(training, "REPORT_SECONDS", 0)
    recipe, run = tmp_path / "recipe.json", tmp_path / "run"
    recipe.write_text(json.dumps(RECIPE | {
        "level": "char", "preset": "lstm-256", "heads": 4, "area": "eq9",
        "learning_rate": 3e-3, "warmup_steps": 5}))
    for command in (["prepare", "--corpora", str(corpora), "--eval", str(corpora / "eval")],
                    ["train", "--cooldown", "20"], ["export"]):
        assert main([command[0], str(recipe), "--run", str(run), *command[1:]]) == 0
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == 20 and losses[-1] < 0.8 * losses[0]
    assert "tatoeba" in log[-1]["bleu"]
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["model_type"] == "acre-lstm"
    assert config["area"]["key"] == "concat"
    card = (run / "model" / "README.md").read_text()
    assert "A small LSTM sequence-to-sequence model with area attention" in card
    assert "Preset lstm-256: 2 encoder and 2 decoder layers, 4 heads" in card


def test_grids_are_trained_by_the_same_commands(tmp_path, corpora, monkeypatch, capsys):
    monkeypatch.setattr(training, "REPORT_SECONDS", 0)
    monkeypatch.setattr(evaluate, "LONGEST_TRANSLATION", {"token": 10})
    recipe, run = tmp_path / "recipe.json", tmp_path / "run"
    cross = {"memory_height": 3, "height": [2, 2], "width": [3, 1]}
    recipe.write_text(json.dumps(RECIPE | {
        "area": {"encoder_self": {"memory_height": 2}, "decoder_cross": cross, "key": "concat"},
        "learning_rate": 3e-3, "warmup_steps": 5}))
    for command in (["prepare", "--corpora", str(corpora), "--eval", str(corpora / "eval")],
                    ["train", "--cooldown", "20"], ["evaluate"], ["export"]):
        assert main([command[0], str(recipe), "--run", str(run), *command[1:]]) == 0
    said = capsys.readouterr().out
    lengths = Pairs(run / "prepared", read_recipe(recipe)).source_lengths
    assert (f"train: only sentences of a multiple of 6 ids, end included, also in evaluations; "
            f"{(lengths % 6 != 0).sum():,} of {len(lengths):,} pairs are left out") in said
    assert "evaluate: only sentences of a multiple of 6 ids, end included" in said
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [entry["loss"] for entry in log if "loss" in entry]
    assert len(losses) == 20 and losses[-1] < 0.8 * losses[0]
    scores = json.loads((run / "scores.json").read_text())
    assert scores["step"] == checkpoint.load(run / "best.pt")["step"]
    assert 0 < scores["sets"]["newstest2013"]["sentences"] < 100
    assert "| newstest2013 | " in (run / "model" / "README.md").read_text()
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["area"]["decoder_cross"] == cross


def test_a_run_starts_from_another_model(run, recipe, tmp_path, monkeypatch):
    """Shared pieces keep their embeddings, layers are copied, the rest is as it would be."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    parent = Trainer(run)
    train(parent, 2)
    parent.evaluate()
    export.export(run, tmp_path / "parent")
    given = {name: w.bfloat16().float() for name, w in parent.average.weights.items()}
    if recipe.level == "token":  # piece 5 has another number, piece 6 is unknown to the parent
        ids = json.loads((tmp_path / "parent" / "vocab.json").read_text())
        names = {number: piece for piece, number in ids.items()}
        ids[names[5]], ids["elsewhere"] = 6, 5
        del ids[names[6]]
        (tmp_path / "parent" / "vocab.json").write_text(json.dumps(ids))
    child = Trainer(run)
    fresh = {name: w.detach().clone() for name, w in child.model.named_parameters()}
    inherit(child.model, child.vocabulary, tmp_path / "parent")
    table = "model.shared.weight"
    for name, weight in child.model.named_parameters():
        expected = given[name].clone()
        if recipe.level == "token" and name == table:
            expected[5], expected[6] = given[table][6], fresh[table][6]
        if recipe.level == "token" and name == "final_logits_bias":
            expected[0, 5], expected[0, 6] = given[name][0, 6], fresh[name][0, 6]
        assert torch.equal(weight, expected), name


def test_pieces_that_the_parent_lacks_begin_as_in_a_second(run, recipe, tmp_path):
    """The second parent has the embeddings of the first turned, so they are known exactly."""
    from safetensors.torch import load_file, save_file

    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "first")
    whole = load_file(tmp_path / "first/model.safetensors")["model.shared.weight"].float()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    turn = torch.linalg.qr(torch.randn(whole.shape[1], whole.shape[1])).Q
    save_file({"model.shared.weight": whole @ turn}, tmp_path / "second/model.safetensors")
    child = training.new_model(recipe, trainer.vocabulary)
    lost = []
    if recipe.level == "token":
        path = tmp_path / "first/vocab.json"
        ids = json.loads(path.read_text())
        lost = sorted(ids.values())[20:60]
        path.write_text(json.dumps({piece: n for piece, n in ids.items() if n not in lost}))
    known = inherit(child, trainer.vocabulary, tmp_path / "first")
    assert known == trainer.vocabulary.size - len(lost)
    added = inherit_pieces(child, trainer.vocabulary, *(tmp_path / n for n in ("first", "second")))
    assert added == len(lost)
    torch.testing.assert_close(child.model.shared.weight.detach(), whole, atol=1e-4, rtol=1e-3)


def test_too_few_common_pieces_are_refused(run, recipe, tmp_path):
    if recipe.level == "char":
        pytest.skip("all models over bytes have the same")
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    path = tmp_path / "first/vocab.json"
    ids = json.loads(path.read_text())
    path.write_text(json.dumps({piece: n for piece, n in ids.items() if n < 100}))
    with pytest.raises(ValueError, match="expected at least 128 pieces in common .* found 100"):
        inherit_pieces(trainer.model, trainer.vocabulary, *(tmp_path / n
                                                            for n in ("first", "second")))


def test_a_second_parent_without_pieces_is_refused(run, recipe, tmp_path):
    if recipe.level == "char":
        pytest.skip("bytes are no pieces")
    trainer = Trainer(run)
    with pytest.raises(ValueError, match="nowhere: vocab.json: expected pieces of this vocabulary"):
        inherit_pieces(trainer.model, trainer.vocabulary, tmp_path, tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="vocab.json: expected the pieces of pieces_from"):
        check_pieces(tmp_path / "nowhere")


@pytest.mark.parametrize("text, message", [
    ("{", "config.json: expected JSON"),
    ("[]", "config.json: encoder_layers: expected an integer, found None"),
    ('{"encoder_layers": 2, "decoder_layers": "2"}',
     "decoder_layers: expected an integer, found '2'"),
])
def test_what_is_no_parent_is_named(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        check_parent(shape_of("tiny"), tmp_path)


def test_a_parent_of_another_level_gives_its_layers(run, recipe, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    pieces = tmp_path / "parent" / "vocab.json"  # only a token model has it
    pieces.unlink() if recipe.level == "token" else pieces.write_text("{}")
    child = training.new_model(recipe, trainer.vocabulary)
    fresh = child.model.shared.weight.detach().clone()
    assert inherit(child, trainer.vocabulary, tmp_path / "parent") == 0
    assert torch.equal(child.model.shared.weight, fresh)
    layer = "model.encoder.layers.0.fc1.weight"
    given = trainer.average.weights[layer].bfloat16().float()
    assert torch.equal(child.state_dict()[layer], given)


def test_layers_above_those_of_the_parent_add_nothing_at_first(run, recipe, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    deeper = dataclasses.replace(recipe, preset=DEEPER_THAN_TINY)
    child = training.new_model(deeper, trainer.vocabulary)
    inherit(child, trainer.vocabulary, tmp_path / "parent")
    given = {name: w.bfloat16().float() for name, w in trainer.average.weights.items()}
    above = set(dict(child.named_parameters())) - set(given)
    assert {name.rsplit("layers.")[1][0] for name in above if "encoder.layers" in name} == {*"23"}
    assert {name.rsplit("layers.")[1][0] for name in above if "decoder.layers" in name} == {*"2"}
    if recipe.level == "char":  # of Eq. 9
        keys = [name for name in above if name.endswith("area.fc2.weight")]
        assert len(keys) == 4 and all(child.state_dict()[name].any() for name in keys)
    parent = training.new_model(recipe, trainer.vocabulary)
    parent.load_state_dict(given)
    source, target = torch.arange(20).view(2, 10) + 5, torch.arange(14).view(2, 7) + 30
    states = []
    for model in (parent, child):
        model.eval().reserve(10)
        states.append(model.decode(*model.encode(source), model.inputs(target)))
    if recipe.norm == "pre":  # post-norm layers still norm what passes by
        torch.testing.assert_close(*states, atol=1e-6, rtol=1e-5)
    child.train().decode(*child.encode(source), child.inputs(target)).sum().backward()
    assert all(w.grad.abs().max() > 0 for name, w in child.named_parameters()
               if name in above and "out_proj.weight" in name)


def test_a_parent_that_lacks_a_tensor_is_refused(run, tmp_path):
    from safetensors.torch import load_file, save_file

    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    path, lost = tmp_path / "parent/model.safetensors", "model.encoder.layers.1.fc2.weight"
    kept = {name: w for name, w in load_file(path).items() if name != lost}
    save_file(kept, path)
    with pytest.raises(ValueError, match=f"found no {lost}"):
        inherit(trainer.model, trainer.vocabulary, tmp_path / "parent")


def test_a_parent_of_another_shape_is_refused(run, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    shape = dataclasses.replace(trainer.recipe, preset="small")
    with pytest.raises(ValueError, match="expected .*found"):
        inherit(training.new_model(shape, trainer.vocabulary), trainer.vocabulary,
                tmp_path / "parent")


def of_bytes(folder, **changes):
    """(recipe, random model, vocabulary) of tiny pre-norm layers."""
    path = folder / "recipe.json"
    path.write_text(json.dumps(RECIPE | {"level": "char", "norm": "pre"} | changes))
    recipe, vocabulary = read_recipe(path), ByteVocabulary(folder)
    return recipe, training.new_model(recipe, vocabulary), vocabulary


def write_parent(folder, **changes):
    """Writes such a model as a parent; returns its weights."""
    recipe, model, vocabulary = of_bytes(folder, **changes)
    export.write_json(folder / "config.json", export.model_config(recipe, vocabulary))
    export.write_tensors(model.state_dict(), folder / "model.safetensors")
    return model.state_dict()


@pytest.mark.parametrize("parent, child, factors", [
    ("regular", "eq3", [1 / 3] * 6),
    ("eq3", "regular", [3] * 6),
    ("eq3", "eq3", []),
    ("eq3", {"value": "mean"}, [3] * 6),
    ({"value": "mean"}, {"value": "max", "key": "max"}, []),
    ("eq9", {"encoder_self": {"width": [5, 2]}}, [2]),
    ({"decoder_cross": {"width": [1, 3]}}, "eq3", [1 / 3, 2 / 3]),
])
def test_attentions_begin_as_large_as_those_of_a_parent_with_other_areas(
        tmp_path, parent, child, factors):
    given = write_parent(tmp_path, area=parent)
    _, model, vocabulary = of_bytes(tmp_path, area=child)
    scales = output_scales(model.shape, tmp_path)
    assert list(scales.values()) == pytest.approx(factors)
    assert all(name.endswith("_attn.out_proj.weight") for name in scales)
    inherit(model, vocabulary, tmp_path)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), given[name] * scales.get(name, 1))


@pytest.mark.parametrize("parent, child, message", [
    ({"preset": DEEPER_THAN_TINY | {"heads": 2}}, {},
     "encoder_attention_heads: expected 4, .* found 2"),
    ({"preset": "lstm-256", "norm": "post"},
     {"preset": "lstm-256", "norm": "post", "heads": 4},
     "decoder_attention_heads: expected 4, .* found 1"),
    ({}, {"area": "eq9"}, "area.encoder_self: expected key concat, height 1 and width 5 in layer 0"
     ", found mean, 1 and 5"),
    ({"area": "eq9"}, {"area": {"key": "concat", "decoder_cross": {"width": [5, 2]}}},
     "area.decoder_cross: expected key concat, height 1 and width 2 in layer 1"),
])
def test_a_parent_of_other_heads_or_dense_layers_is_refused(tmp_path, parent, child, message):
    write_parent(tmp_path, **parent)
    _, model, vocabulary = of_bytes(tmp_path, **child)
    with pytest.raises(ValueError, match=f"config.json: {message}"):
        inherit(model, vocabulary, tmp_path)


@pytest.mark.parametrize("command", ["prepare", "all"])
def test_a_parent_of_another_shape_is_refused_before_text_is_read(command, tmp_path, capsys):
    recipe = tmp_path / "recipe.json"
    for change, message in (
        ({"preset": "lstm-256"}, "model_type: expected acre-lstm, .* found m2m_100"),
        ({}, "model_type: expected marian, .* found m2m_100"),
        ({"norm": "pre"}, "d_model: expected 128, .* found 256"),
        ({"norm": "pre", "preset": DEEPER_THAN_TINY | {"width": 256}},
         "encoder_ffn_dim: expected 512, .* found 1024"),
    ):
        recipe.write_text(json.dumps(RECIPE | {"start_from": "en-de-token"} | change))
        assert main([command, str(recipe), "--run", str(tmp_path / "run"), "--corpora", "/nowhere",
                     "--eval", "/nowhere"]) == 1
        assert re.search(f"models/en-de-token/config.json: {message}", capsys.readouterr().err)


@pytest.mark.parametrize("language, name", [("fr", "French"), ("nl", "nl")])
def test_the_card_of_any_language(tmp_path, language, name):
    recipe, model, _ = of_bytes(tmp_path, target=language)
    best = {"average": model.state_dict(), "step": 8, "tokens": 9, "seconds": 10.0}
    assert card.model_card(recipe, best, {}, None).startswith(f"# test: English to {name}, char")


def test_the_card_has_no_scores_of_other_weights():
    news = {"newstest2013": {"sentences": 3000, "bleu": 16.13, "chrf": 44.7}}
    scores = {"step": 8, "sets": news}
    assert "| newstest2013 | 3,000 | 16.1 | 44.7 |" in card.scores_table(scores, 8)
    for stale in (None, scores | {"step": 7}, news):  # the last as it was written before
        assert card.scores_table(stale, 8) == "Not yet scored."


@pytest.mark.parametrize("files", [
    {"thesis.txt": "years of work"},
    {"config.json": '{"model_type": "marian"}', "index.html": "a web site"},
    {"config.json": '{"port": 80}', "package.json": "{}"},
    {"config.json": '{"model_type": "bert"}', "model.safetensors": "months of work"},
    {"config.json": "not JSON"},
    {"model.safetensors": "months of work"},
])
def test_export_spares_other_folders(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match="found other files"), folder.replacing(tmp_path):
        pass
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_an_export_that_fails_leaves_the_model_that_was_there(run, tmp_path, monkeypatch):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("# old")

    def full(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "model_card", full)
        with pytest.raises(OSError):
            export.export(run, tmp_path / "model")
    assert (tmp_path / "model" / "README.md").read_text() == "# old"
    assert (tmp_path / "model" / "model.safetensors").exists()
    export.export(run, tmp_path / "model")
    assert (tmp_path / "model" / "README.md").read_text() != "# old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_interruption_between_the_renames_leaves_the_old_model(tmp_path, monkeypatch):
    model, rename = tmp_path / "model", Path.rename
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "marian"}')

    def interrupted(path, target):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), folder.replacing(model):
        pass
    assert (model / "config.json").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_large_models_are_written_in_shards(monkeypatch, tmp_path):
    monkeypatch.setattr(export, "LARGEST_SINGLE_FILE", 100)
    monkeypatch.setattr(export, "LARGEST_SHARD", 50)
    tensors = {name: torch.zeros(20) for name in "abcd"}
    export.write_weights(tensors, tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(tensors)
    assert all((tmp_path / name).exists() for name in index["weight_map"].values())


def test_rate_warms_up_holds_and_cools_down(recipe):
    top, warm, flat = recipe.learning_rate, recipe.warmup_steps, recipe.flat_steps
    assert learning_rate(recipe, 0) == pytest.approx(top / warm)
    assert learning_rate(recipe, warm) == learning_rate(recipe, flat) == top
    assert learning_rate(recipe, 4 * flat) == pytest.approx(top / 2)
    cooldown = Cooldown(start=warm, steps=100)
    assert learning_rate(recipe, warm + 50, cooldown) == pytest.approx(top / 2)
    assert learning_rate(recipe, warm + 100, cooldown) == 0


@pytest.mark.parametrize("arguments, message", [
    (["prepare", "en-de-token"], "prepare needs --corpora DIR and --eval DIR"),
    (["prepare", "en-xx-token"], "en-xx-token: no such recipe; there are de-en-token"),
    (["prepare", "en-fr-token", "--corpora", "/nowhere", "--eval", "/nowhere"], "/nowhere: no"),
    (["train", "en-de-token"], "nothing is prepared"),
])
def test_command_line_errors_say_what_is_wrong(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--run", str(tmp_path / "run")]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("mistake, message", [
    ({"warm_up": 3}, "recipe.json: unknown key warm_up"),
    ({"vocabulary": 150}, "recipe.json: vocabulary: expected 300 to 65535 pieces, found 150"),
    ({"preset": "big"}, "recipe.json: unknown preset big; there are .*big-en-fr"),
    ({"area": {"key": "median"}}, "recipe.json: area.key: expected one of mean.*'median'"),
    ({"preset": "lstm-256", "area": "eq8"}, "recipe.json: area: expected regular, eq3, eq9 or an"),
    ({"heads": 4}, "recipe.json: heads: expected only with an LSTM preset"),
    ({"preset": "lstm-256", "area": {"decoder_cross": {"memory_height": 2}}},
     "recipe.json: area.decoder_cross.memory_height: expected 1, as this memory cannot be a grid"),
])
def test_mistakes_in_recipes_are_errors(tmp_path, mistake, message):
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(RECIPE | mistake))
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


@pytest.mark.parametrize("model", ["en-de-token", "en-fr-token", "en-de-char", "en-fr-char"])
def test_shipped_recipes_are_valid(model):
    recipe = read_recipe(find_recipe(model))
    assert recipe.name == model
    if recipe.start_from:
        check_parent(recipe.shape(), SHIPPED / recipe.start_from)
    assert sum(group.share for group in recipe.mix.values()) == pytest.approx(1)
    assert not recipe.uses("msdocs-MT")
