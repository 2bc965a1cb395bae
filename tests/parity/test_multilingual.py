"""Holds models of many languages to the golden translations of tests/golden/multilingual/: their
directories as transformers saves them, all languages of M2M100, NLLB-200 and mBART-50."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_models import BOUND, EXACT, arguments, difference

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted(path.parent for path in
                (ROOT / "tests/golden/multilingual").glob("*/golden.json"))
GOLDEN = {path.name: json.loads((path / "golden.json").read_text("utf-8")) for path in MODELS}
CASES = [(path, run) for path in MODELS for run in GOLDEN[path.name]["runs"]]
M2M, NLLB, MBART = (ROOT / "tests/golden/multilingual" / name
                    for name in ("m2m-many", "nllb-many", "mbart-many"))
CODES = {"m2m-many": ["en", "de", "fr"], "nllb-many": ["eng_Latn", "deu_Latn", "fra_Latn"]}


def named(value):
    return value.name if isinstance(value, Path) else str(value)


def run(model, lines, *options, expected=0):
    """Standard output's lines, or what is wrong."""
    binary = os.environ.get("ACRE", str(ROOT / "build/acre"))
    exact = [] if "--device" in options else EXACT
    result = subprocess.run([binary, "translate", "--model", str(model), *exact, *options],
                            input="".join(line + "\n" for line in lines), capture_output=True,
                            text=True, timeout=300, check=False)
    assert result.returncode == expected, result.stderr
    return result.stdout.splitlines() if expected == 0 else result.stderr


def by_pair(sentences):
    pairs = {tuple(sentence["pair"]) for sentence in sentences}
    return {pair: [s for s in sentences if tuple(s["pair"]) == pair] for pair in pairs}


def languages(pair):
    return ("--source", pair[0], "--target", pair[1])


def compare(model, sentences, name, options, *more):
    """In every pair of languages, tokens and scores of all hypotheses."""
    for pair, group in by_pair(sentences).items():
        found = run(model, [s["source"] for s in group], "--tokens", "--json", *languages(pair),
                    *arguments(options), *more)
        wrong = [difference(json.loads(line)["hypotheses"], s["runs"][name])
                 for s, line in zip(group, found, strict=True)]
        assert wrong == [None] * len(group), pair


@pytest.mark.parametrize("model, name", CASES, ids=named)
def test_translations_are_those_of_transformers(model, name):
    golden = GOLDEN[model.name]
    compare(model, golden["sentences"], name, golden["runs"][name])


def score(model, sources, targets, pair, folder, *more):
    file = folder / "targets"
    file.write_text("".join(line + "\n" for line in targets), encoding="utf-8")
    return run(model, sources, *languages(pair), "--score", str(file), *more)


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_texts_are_tokenized_as_transformers_does(model, tmp_path):
    """As sources and as translations: a text has the score of its tokens."""
    for pair, group in by_pair(GOLDEN[model.name]["sentences"]).items():
        texts, tokens = [s["text"] for s in group], [s["source"] for s in group]
        assert score(model, texts, texts, pair, tmp_path) == score(
            model, tokens, tokens, pair, tmp_path, "--tokens")


@pytest.mark.parametrize("model", MODELS, ids=named)
def test_scores_of_translations_are_those_of_the_search(model, tmp_path):
    for pair, group in by_pair(GOLDEN[model.name]["sentences"]).items():
        best = [s["runs"]["beam"][0] for s in group]
        found = score(model, [s["source"] for s in group], [b[0] for b in best], pair, tmp_path,
                      "--tokens")
        assert [float(x) for x in found] == pytest.approx([b[1] for b in best], abs=BOUND)


@pytest.mark.parametrize("compute_type, bound", (("bf16", 0.1), ("int8", 0.5)))
@pytest.mark.parametrize("model", MODELS, ids=named)
def test_scores_in_fewer_bits(model, compute_type, bound, tmp_path):
    """Against float64, of 30 tokens, whose scores are about -60."""
    errors = []
    for pair, group in by_pair(GOLDEN[model.name]["sentences"]).items():
        best = [s["runs"]["beam-30"][0] for s in group]
        found = score(model, [s["source"] for s in group], [b[0] for b in best], pair, tmp_path,
                      "--tokens", "--max-length", "30", "--min-length", "30", "--compute-type",
                      compute_type)
        errors += [abs(float(x) - b[1]) for x, b in zip(found, best, strict=True)]
    assert sum(errors) / len(errors) < bound, errors


def copied(model, folder, *without):
    directory = folder / model.name
    shutil.copytree(model, directory, ignore=shutil.ignore_patterns(*without))
    return directory


def changed(directory, file, **fields):
    config = json.loads((directory / file).read_text()) | fields
    (directory / file).write_text(json.dumps(config))


@pytest.mark.parametrize("model, without", (
    (NLLB, "tokenizer.json"), (NLLB, "sentencepiece.bpe.model"), (NLLB, "tokenizer_config.json"),
    (MBART, "tokenizer.json"), (MBART, "sentencepiece.bpe.model"),
), ids=named)
def test_either_tokenizer_serves(model, without, tmp_path):
    directory = copied(model, tmp_path, without)
    golden = GOLDEN[model.name]
    compare(directory, golden["sentences"], "greedy", golden["runs"]["greedy"])
    text = golden["sentences"][4]["text"]
    pair = golden["sentences"][4]["pair"]
    assert run(directory, [text], *languages(pair)) == run(model, [text], *languages(pair))


@pytest.mark.parametrize("name", ("greedy", "beam"))
def test_legacy_behaviour_of_nllb(name, tmp_path):
    directory = copied(NLLB, tmp_path)
    changed(directory, "tokenizer_config.json", legacy_behaviour=True)
    golden = GOLDEN[NLLB.name]
    assert all(s["source_ids"][-2] == 2 for s in golden["legacy"])
    compare(directory, golden["legacy"], name, golden["runs"][name])


def test_the_tokenizer_of_mbart(tmp_path):
    """Its class stands in either file; without one it would be that of the first mBART."""
    directory = copied(MBART, tmp_path, "tokenizer_config.json")
    sentence = GOLDEN[MBART.name]["sentences"][0]
    given = languages(sentence["pair"])
    message = run(directory, [sentence["text"]], *given, expected=1)
    assert "config.json: tokenizer_class: expected " in message
    assert 'found "MBartTokenizer"' in message
    changed(directory, "config.json", tokenizer_class="MBart50Tokenizer")
    assert run(directory, [sentence["text"]], *given) == run(MBART, [sentence["text"]], *given)


@pytest.mark.parametrize("missing", ("model.encoder.embed_positions.weight",
                                     "model.decoder.layernorm_embedding.bias"))
def test_tensors_of_mbart(missing, tmp_path):
    directory = copied(MBART, tmp_path)
    file = directory / "model.safetensors"
    renamed = file.read_bytes().replace(missing.encode(), missing[:-1].encode() + b"_")
    file.write_bytes(renamed)
    message = run(directory, ["a"], *languages(("en", "de")), expected=1)
    assert f"model.safetensors: {missing}: expected a tensor [" in message


def test_languages_have_many_names():
    line = [GOLDEN[NLLB.name]["sentences"][1]["source"]]
    expected = run(NLLB, line, "--tokens", *languages(("eng_Latn", "zho_Hans")))
    assert expected[0].startswith("zho_Hans ")
    for source, target in (("en", "zh"), ("EN", "zh-CN"), ("eng", "zho"), ("Eng_latn", "zh_Hans")):
        assert run(NLLB, line, "--tokens", *languages((source, target))) == expected
    traditional = run(NLLB, line, "--tokens", *languages(("en", "zh-TW")))
    assert traditional[0].startswith("zho_Hant ")
    for tag, code in (("ar", "arb_Arab"), ("no", "nob_Latn"), ("nb", "nob_Latn"),
                      ("fa", "pes_Arab"), ("sw", "swh_Latn"), ("ace-Arab", "ace_Arab")):
        found = run(NLLB, line, "--tokens", *languages(("en", tag)))
        assert found[0].startswith(code + " "), tag


@pytest.mark.parametrize("given, message", (
    (("--source", "en"), "--target: expected one of the 100 languages"),
    (("--source", "xx", "--target", "de"), "--source: expected one of the 100 languages"),
    (("--source", "en", "--target", "en-US"), "found en-US"),
))
def test_languages_must_be_told(given, message):
    assert message in run(M2M, ["a"], *given, expected=2)


def test_a_directory_may_have_default_languages(tmp_path):
    line = [GOLDEN[M2M.name]["sentences"][0]["source"]]
    expected = run(M2M, line, "--tokens", *languages(("fr", "de")))
    directory = copied(M2M, tmp_path)
    changed(directory, "tokenizer_config.json", src_lang="fr", tgt_lang="de")
    assert run(directory, line, "--tokens") == expected
    ids = {"lang_to_id": {"fr": 211, "de": 199, "en": 201}}
    fr = GOLDEN[M2M.name]["sentences"][0]
    assert fr["source_ids"][0] == 199  # of "en", as the table of M2M100 has it
    changed(directory, "tokenizer_config.json", tgt_lang=None, **ids)
    changed(directory, "config.json", forced_bos_token_id=199)
    assert run(directory, line, "--tokens")[0].startswith("__de__ ")


@pytest.mark.parametrize("file, fields, message", (
    ("tokenizer_config.json", {"lang_to_id": {"de": 300}},
     "tokenizer_config.json: lang_to_id: expected ids from 1 to "),
    ("tokenizer_config.json", {"lang_to_id": {"de": 7}},
     "tokenizer_config.json: lang_to_id: expected de with an id of its own, found 7 of "),
    ("tokenizer_config.json", {"lang_to_id": {"de": 200, "fr": 200}},
     "tokenizer_config.json: lang_to_id: expected an id of its own for each language"),
    ("tokenizer_config.json", {"lang_to_id": {"__de__": 200, "de": 201}},
     'tokenizer_config.json: lang_to_id: expected each language once, found "de"'),
    ("tokenizer_config.json", {"lang_to_id": {"de": 2 ** 32 + 200}},
     "tokenizer_config.json: lang_to_id: expected ids from 1 to "),
    ("tokenizer_config.json", {"lang_to_id": {"de": -1}}, "lang_to_id: expected ids from 1 to "),
    ("tokenizer_config.json", {"lang_to_id": {"<b>": 200}},
     "lang_to_id: expected at most 4096 language codes of 1 to 15 letters, digits, - and _, found"),
    ("tokenizer_config.json", {"lang_to_id": {"d\ne": 200}}, 'digits, - and _, found "d?e"'),
    ("tokenizer_config.json", {"lang_to_id": {"d" * 16: 200}}, "language codes of 1 to 15"),
    ("tokenizer_config.json", {"lang_to_id": {}}, "lang_to_id: expected language tokens, found"),
    ("tokenizer_config.json", {"lang_to_id": []}, "lang_to_id: expected an object, found []"),
    ("tokenizer_config.json", {"lang_to_id": {"de": "x"}},
     'tokenizer_config.json: lang_to_id.de: expected a token id, found "x"'),
    ("tokenizer_config.json", {"language_codes": "m3m"},
     'tokenizer_config.json: language_codes: expected m2m100 or wmt21, found "m3m"'),
    ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"},
     "tokenizer_config.json: tokenizer_class: expected MarianTokenizer"),
    ("generation_config.json", {"eos_token_id": 3, "forced_eos_token_id": 3},
     "eos_token_id: expected 2, the tokenizer's </s>, found 3"),
    ("config.json", {"forced_bos_token_id": 2},
     "forced_bos_token_id: expected another token than eos_token_id, found 2"),
))
def test_bad_files_of_m2m100(file, fields, message, tmp_path):
    directory = copied(M2M, tmp_path)
    changed(directory, file, **fields)
    assert message in run(directory, ["a"], *languages(("en", "de")), expected=1)


@pytest.mark.parametrize("added, message", (
    ({"99999999999999999999": {"content": "deu_Latn"}}, "expected ids from 1 to "),
    ({"-5": {"content": "deu_Latn"}}, "expected ids from 1 to "),
    ({"0": {"content": "deu_Latn"}}, "expected ids from 1 to "),
    ({"5 ": {"content": "deu_Latn"}}, "expected an id with a token and its content"),
    ({"5": "deu_Latn"}, 'expected an id with a token and its content, found "deu_Latn"'),
    ({"5": {"content": "deu_Latn"}}, "expected deu_Latn with an id of its own, found 5 of "),
    ({"250": {"content": "deu_Latn"}, "251": {"content": "deu_Latn"}},
     'expected each language once, found "deu_Latn"'),
    ({"250": {"content": "deu_Latn"}, "0250": {"content": "fra_Latn"}},
     "expected an id of its own for each language"),
))
def test_bad_languages_of_nllb(added, message, tmp_path):
    directory = copied(NLLB, tmp_path)
    changed(directory, "tokenizer_config.json", added_tokens_decoder=added)
    found = run(directory, ["a"], *languages(("en", "de")), expected=1)
    assert "tokenizer_config.json: added_tokens_decoder" in found and message in found


def edited(directory, edit):
    file = directory / "tokenizer.json"
    fast = json.loads(file.read_text())
    edit(fast)
    file.write_text(json.dumps(fast))


@pytest.mark.parametrize("edit, message", (
    (lambda fast: fast["model"].update(type="WordPiece"),
     'tokenizer.json: model.type: expected BPE or Unigram, found "WordPiece"'),
    (lambda fast: fast["model"]["vocab"].update({"x y": 10 ** 7}),
     "tokenizer.json: model.x y: expected a number from 0 to 1048575, found 10000000"),
    (lambda fast: fast["model"]["vocab"].update({"x y": 9}), "expected a number of its own"),
    (lambda fast: fast["model"]["vocab"].update({"x y": 9000}),
     "tokenizer.json: model.vocab: expected a piece with the number 404, found nothing"),
    (lambda fast: fast["model"]["merges"].append("never seen"),
     "tokenizer.json: model.merges: expected pairs of pieces that are a piece"),
    (lambda fast: fast.update(normalizer={"type": "BertNormalizer"}),
     "tokenizer.json: normalizer: expected Precompiled, Replace and Strip only"),
    (lambda fast: fast.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "@@@@"}),
     "tokenizer.json: normalizer: expected a precompiled_charsmap in base64"),
    (lambda fast: fast.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "////"}),
     "tokenizer.json: precompiled_charsmap: expected a table of rules that stays within itself"),
    (lambda fast: fast.update(normalizer={"type": "Precompiled", "precompiled_charsmap": 3}),
     "tokenizer.json: normalizer: expected a precompiled_charsmap in base64"),
    (lambda fast: fast.update(pre_tokenizer={"type": "ByteLevel"}),
     "tokenizer.json: pre_tokenizer: expected Metaspace and WhitespaceSplit only"),
    (lambda fast: fast["added_tokens"].append({"id": 5}),
     "tokenizer.json: added_tokens: expected tokens with id and content"),
))
def test_bad_fast_tokenizers(edit, message, tmp_path):
    directory = copied(NLLB, tmp_path, "sentencepiece.bpe.model")
    edited(directory, edit)
    assert message in run(directory, ["a"], *languages(("en", "de")), expected=1)


def test_a_unigram_fast_tokenizer(tmp_path):
    """The pieces of a tokenizer.json with scores, here so that words are cut into characters."""
    directory = copied(NLLB, tmp_path, "sentencepiece.bpe.model")

    def with_scores(fast):
        pieces = sorted(fast["model"]["vocab"], key=fast["model"]["vocab"].get)
        fast["model"] = {"type": "Unigram", "unk_id": 3,
                         "vocab": [[piece, -1.0 if len(piece) == 1 else -99.0] for piece in pieces]}

    edited(directory, with_scores)
    tokens = " ".join("▁" if c == " " else c for c in " No, thanks.")
    pair = ("en", "de")
    assert score(directory, ["No, thanks."], ["a"], pair, tmp_path) == score(
        directory, [tokens], ["▁ a"], pair, tmp_path, "--tokens")


def test_other_commands_choose_languages(tmp_path):
    (tmp_path / "input").write_text("Hello there.\n" * 3)
    binary = os.environ.get("ACRE", str(ROOT / "build/acre"))
    bench = [binary, "bench", "--model", str(M2M), "--input", str(tmp_path / "input"), "--json"]
    result = subprocess.run([*bench, "--source", "en", "--target", "de"], capture_output=True,
                            text=True, check=True)
    assert json.loads(result.stdout)["sentences"] == 3
    result = subprocess.run(bench, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "--target: expected one of the 100" in result.stderr
    inspect = [binary, "inspect", str(M2M), "--attention", "Hello there.", "-o",
               str(tmp_path / "out.json")]
    subprocess.run([*inspect, "--source", "en", "--target", "de"], check=True)
    sentence, = json.loads((tmp_path / "out.json").read_text())["attention"]
    assert sentence["source"][0] == "__en__" and sentence["target"][0] == "__de__"


def test_no_tokenizer_at_all(tmp_path):
    directory = copied(NLLB, tmp_path, "sentencepiece.bpe.model", "tokenizer.json")
    message = run(directory, ["a"], *languages(("en", "de")), expected=1)
    assert "sentencepiece.bpe.model: expected a file or tokenizer.json instead, found" in message
