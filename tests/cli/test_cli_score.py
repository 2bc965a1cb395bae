"""`acre translate --score`: what the search gives its own output, transformers others'."""

import json
import math
import shutil

import pytest
from conftest import ROOT, failed

MODELS = ROOT / "tests/golden/models"
EXACT = ("--device", "cpu", "--compute-type", "f32", "--tokens")


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def golden_of(model):
    return json.loads((MODELS / model / "golden.json").read_text())["sentences"]


@pytest.fixture
def score(acre, tmp_path):
    def run(model, sources, targets, *options):
        return acre("translate", "--model", MODELS / model, write(tmp_path / "input", sources),
                    "--score", write(tmp_path / "targets", targets), *options)

    return run


@pytest.mark.parametrize("model", ("tiny-token", "tiny-area", "tiny-char", "m2m-area", "tiny-lstm",
                                   "area-concat"))
def test_own_translations_have_their_scores(score, model):
    sentences = golden_of(model)
    best = [s["runs"]["beam"][0] for s in sentences]
    result = score(model, [s["source"] for s in sentences], [b[0] for b in best], *EXACT)
    assert result.returncode == 0, result.stderr
    found = [float(line) for line in result.stdout.splitlines()]
    assert found == pytest.approx([b[1] for b in best], abs=1e-4)


@pytest.mark.parametrize("model", ("tiny-area", "odd-sizes", "m2m-area", "area-sum"))
def test_forced_translations_are_scored_as_transformers_does(score, model):
    """Of models whose softmax is over all tokens, as the forced log-probabilities are."""
    sentences = golden_of(model)
    vocabulary = json.loads((MODELS / model / "vocab.json").read_text())
    names = {i: name for name, i in vocabulary.items()}
    targets = [" ".join(names[i] for i in s["teacher_forced"]["target_ids"][:-1])
               for s in sentences]
    result = score(model, [s["source"] for s in sentences], targets, *EXACT, "--json")
    assert result.returncode == 0, result.stderr
    for line, target, sentence in zip(result.stdout.splitlines(), targets, sentences, strict=True):
        found, expected = json.loads(line), sum(sentence["teacher_forced"]["log_probs"])
        assert found["score"] == pytest.approx(expected, abs=1e-3)
        assert found["tokens"] == target.split()
        n = len(found["tokens"]) + 1
        assert found["normalized_score"] == pytest.approx(found["score"] / n, rel=1e-6)


def test_batches_change_no_bit(score):
    sentences = golden_of("tiny-area") * 3
    sources = [s["source"] for s in sentences]
    targets = [s["runs"]["greedy"][0][0] for s in sentences][::-1]
    one = score("tiny-area", sources, targets, *EXACT, "--batch-size", "1")
    many = score("tiny-area", sources, targets, *EXACT, "--threads", "2")
    assert one.stdout == many.stdout and len(one.stdout.splitlines()) == len(sources)


def test_texts_empty_lines_and_limits(score):
    lines = ["Hello there.", "", "Hello. Two sentences.", ""]
    result = score("tiny-token", lines, ["Hallo.", "", "Ja. Nein.", "Hallo."])
    found = [float(line) for line in result.stdout.splitlines()]
    assert len(found) == 4 and all(math.isfinite(x) and x < 0 for x in found)
    nothing = json.loads(score("tiny-token", [""], [""], "--json").stdout)
    assert nothing["tokens"] == [] and nothing["score"] == pytest.approx(found[1], abs=1e-5)
    long = score("tiny-token", ["a"], ["b " * 500])
    assert long.returncode == 1
    assert "line 1: translation: expected at most 127 tokens, found " in long.stderr
    long = score("tiny-token", ["b " * 500], ["a"])
    assert "line 1: expected at most 127 tokens, found " in long.stderr


def test_what_is_as_long_as_the_limit_was_cut_there(score):
    """As the search counts it: then the end token adds 0."""
    whole, cut, longer = (float(score("tiny-token", ["▁a"], ["▁a ▁a ▁a"], *EXACT, "--max-length",
                                      str(limit)).stdout) for limit in (9, 3, 2))
    assert whole < cut and longer == whole


def test_what_is_shorter_than_the_search_allows_has_its_score(score):
    """Also of a model that gives what may not come to the other tokens."""
    plain, short = (score("tiny-token", ["▁a"], ["▁a ▁a"], *EXACT, "--min-length", str(n)).stdout
                    for n in (0, 5))
    assert math.isfinite(float(plain)) and short == plain


def test_tokens_that_cannot_be(score):
    """The padding is never written: its probability is 0."""
    plain = score("tiny-token", ["▁a"], ["▁a <pad>"], *EXACT)
    assert plain.stdout == "-inf\n"
    as_json = score("tiny-token", ["▁a"], ["▁a <pad>"], *EXACT, "--json")
    assert json.loads(as_json.stdout)["score"] is None


@pytest.mark.parametrize("sources, targets, words", (
    (["a", "b"], ["c"], "targets: expected as many lines as in {}/input, found fewer than 2"),
    (["a"], ["c", "d"], "targets: expected as many lines as in {}/input, found more than 1"),
    ([], ["c"], "found more than 0"),
))
def test_lines_must_be_as_many(score, sources, targets, words, tmp_path):
    result = score("tiny-token", sources, targets)
    assert result.returncode == 1 and words.format(tmp_path) in result.stderr
    assert len(result.stdout.splitlines()) == min(len(sources), len(targets))
    assert "are scored" in result.stderr


def test_files_that_are_refused(acre, tmp_path):
    result = acre("translate", "--model", MODELS / "tiny-token", "--score", tmp_path / "none")
    assert result.returncode == 1 and "none: expected a readable file" in result.stderr
    (tmp_path / "input").write_text("a\n")
    (tmp_path / "bad").write_bytes(b"\xff\n")
    result = acre("translate", "--model", MODELS / "tiny-token", tmp_path / "input", "--score",
                  tmp_path / "bad")
    assert result.returncode == 1 and "bad: line 1: expected UTF-8" in result.stderr
    both = acre("translate", "--model", MODELS / "tiny-token", "--score", "-")
    assert both.returncode == 2 and "--score: expected a file" in both.stderr


def test_tokens_that_the_model_cannot_write_are_refused(acre, tmp_path):
    """A vocabulary of its own may have more pieces than the decoder's table has rows."""
    model = tmp_path / "model"
    shutil.copytree(MODELS / "two-vocabs", model)
    pieces = json.loads((model / "target_vocab.json").read_text())
    rows = json.loads((model / "config.json").read_text())["decoder_vocab_size"]
    pieces["beyond"] = rows + 100_000
    (model / "target_vocab.json").write_text(json.dumps(pieces))
    source = next(iter(json.loads((model / "vocab.json").read_text())))
    done = acre("translate", "--model", model, "--tokens", write(tmp_path / "input", [source]),
                "--score", write(tmp_path / "targets", ["beyond"]))
    failed(done, 1, f"translation: token 0: expected one of the {rows} that the model can write, "
           f"found number {rows + 100_000}")


def test_languages_that_the_model_cannot_write_are_refused(acre, tmp_path):
    """Translations begin with the language's token, a row of the decoder's table."""
    model = tmp_path / "model"
    shutil.copytree(ROOT / "tests/golden/multilingual/nllb-many", model)
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "marian", "share_encoder_decoder_embeddings": False,
               "decoder_vocab_size": 200, "static_position_embeddings": True}
    (model / "config.json").write_text(json.dumps(config))
    failed(acre("inspect", model), 1, "config.json: decoder_vocab_size: expected more than ",
           "found 200")
