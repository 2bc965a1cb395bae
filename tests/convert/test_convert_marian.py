"""Marian models: a golden model that went through Marian's layout translates as before."""

import json
import shutil

import numpy as np
import pytest
from marian_layout import marian_arrays, options_of, write_marian, write_npz
from safetensors_file import as_float32, read_tensors

from models.convert.directory import write_directory
from models.convert.marian import read_marian
from models.convert.sentencepiece_model import read_pieces
from models.convert.source import read_source

BOUND = 1e-4  # of scores, as in tests/parity
MODELS = ("tiny-token", "two-vocabs")
GENERATION = "generation_config.json"


def change_options(folder, model, *pairs, **options):
    """Sets options of model.npz; an option without value is ..."""
    arrays = marian_arrays(model)
    text = options_of(model, arrays)
    for option, value in [*pairs, *options.items()]:
        option = option.replace("_", "-")
        kept, skips = [], False
        for line in text.split("\n"):
            skips = line.startswith(option + ":") or (skips and line.startswith(" "))
            if not skips:
                kept.append(line)
        text = "\n".join(kept + ([] if value is ... else [f"{option}: {value}"]))
    write_npz(folder / "model.npz", arrays, text)


@pytest.fixture
def make_marian(golden, tmp_path):
    return lambda model="tiny-token", **changed: write_marian(
        golden / model, tmp_path / f"marian-{model}", **changed)


def hypotheses(lines):
    return [json.loads(line)["hypotheses"] for line in lines]


def compute_as_marian(theirs, ours):
    """What positions and layer norms are is Marian's in the imported model, else transformers'."""
    config, imported = (json.loads(path.read_text()) for path in (theirs, ours))
    assert imported["layer_norm_epsilon"] == 1e-9
    assert imported["position_steps"] == config["d_model"] // 2 - 1
    keys = {key: imported[key] for key in ("layer_norm_epsilon", "position_steps")}
    theirs.write_text(json.dumps(config | keys))


@pytest.mark.parametrize("name", MODELS)
def test_translations_are_the_same(make_marian, golden, tmp_path, acre, name):
    write_directory(read_source(make_marian(name)), tmp_path / "model")
    # Of the padding's logit Marian knows nothing: compare without it, decoding alike.
    shutil.copytree(golden / name, tmp_path / "golden")
    compute_as_marian(tmp_path / "golden/config.json", tmp_path / "model/config.json")
    generation = json.loads((golden / name / GENERATION).read_text())
    for folder in ("model", "golden"):
        text = json.dumps(generation | {"renormalize_logits": True})
        (tmp_path / folder / GENERATION).write_text(text)
    sentences = json.loads((golden / name / "golden.json").read_text("utf-8"))["sentences"]
    lines = [sentence["source"] for sentence in sentences]
    options = ("--tokens", "--json", "--beam-size", "4", "--num-hypotheses", "4")
    found, expected = (hypotheses(acre(tmp_path / folder, lines, *options))
                       for folder in ("model", "golden"))
    for got, wanted in zip(found, expected, strict=True):
        assert [h["tokens"] for h in got] == [h["tokens"] for h in wanted]
        for key in ("score", "normalized_score"):
            np.testing.assert_allclose([h[key] for h in got], [h[key] for h in wanted], atol=BOUND)


@pytest.mark.parametrize("name", MODELS)
def test_weights_and_padding(make_marian, golden, tmp_path, name):
    write_directory(read_source(make_marian(name)), tmp_path / "model")
    config = json.loads((tmp_path / "model/config.json").read_text())
    pad = config["pad_token_id"]
    assert pad == json.loads((golden / name / "config.json").read_text())["pad_token_id"]
    expected, found = read_tensors(golden / name), read_tensors(tmp_path / "model")
    assert set(found) == set(expected)
    for key, (dtype, array) in expected.items():
        wanted = as_float32(dtype, array).copy()
        if key == "final_logits_bias":
            wanted[0, pad] = -10000
        elif key.endswith(("shared.weight", "embed_tokens.weight")):
            wanted[pad] = 0
        np.testing.assert_array_equal(found[key][1], wanted)


@pytest.mark.parametrize("name", MODELS)
def test_documents(make_marian, golden, tmp_path, name):
    source = make_marian(name)
    (source / "README.md").write_text("by whom, under which licence")
    write_directory(read_source(source), tmp_path / "model")
    ours, theirs = tmp_path / "model", golden / name
    for file in ("vocab.json", "target_vocab.json"):
        assert (ours / file).exists() == (theirs / file).exists()
        if (theirs / file).exists():
            assert json.loads((ours / file).read_text()) == json.loads((theirs / file).read_text())
    for file in ("source.spm", "target.spm"):
        assert (ours / file).read_bytes() == (theirs / file).read_bytes()
    assert (ours / "README.md").exists()
    expected, found = (json.loads((f / "config.json").read_text()) for f in (theirs, ours))
    same = ("d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads",
            "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "vocab_size",
            "decoder_vocab_size", "activation_function", "eos_token_id", "decoder_start_token_id",
            "share_encoder_decoder_embeddings")
    assert {key: found[key] for key in same} == {key: expected[key] for key in same}
    generation = json.loads((ours / GENERATION).read_text())
    assert (generation["num_beams"], generation["length_penalty"]) == (6, 0.8)
    assert generation["bad_words_ids"] == [[found["pad_token_id"]], [1]]


def test_gelu_becomes_swish(make_marian, golden):
    """Marian's gelu is x * sigmoid(1.702 x): the inner layer must compute the same."""
    source = make_marian()
    change_options(source, golden / "tiny-token", transformer_ffn_activation="gelu")
    model = read_marian(source / "model.npz")
    assert model.documents["config.json"]["activation_function"] == "swish"
    arrays = marian_arrays(golden / "tiny-token")
    part = "model.encoder.layers.1."
    ours = {key: model.tensors[part + key].load().astype(np.float64)
            for key in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")}
    x = np.random.default_rng(1).standard_normal((5, 64))
    inner = x @ arrays["encoder_l2_ffn_W1"] + arrays["encoder_l2_ffn_b1"]
    expected = inner / (1 + np.exp(-1.702 * inner)) @ arrays["encoder_l2_ffn_W2"]
    expected += arrays["encoder_l2_ffn_b2"]
    inner = x @ ours["fc1.weight"].T + ours["fc1.bias"]
    found = inner / (1 + np.exp(-inner)) @ ours["fc2.weight"].T + ours["fc2.bias"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_other_spellings_of_the_same(make_marian, golden, refused):
    """Options left out or null, vectors for rows, no output bias, a name for the vocabulary."""
    arrays = marian_arrays(golden / "tiny-token")
    source = make_marian(**{name: a[0] for name, a in arrays.items() if a.shape[0] == 1})
    expected = read_tensors(golden / "tiny-token")
    name = "model.decoder.layers.0.encoder_attn.q_proj.bias"
    found = read_source(source).tensors[name].load()
    np.testing.assert_array_equal(found, expected[name][1])
    change_options(source, golden / "tiny-token", ("type", "~"), ("version", ...),
                   ("input-types", "[sequence, sequence]"), ("dim-vocabs", "[]"),
                   ("transformer-ffn-activation", ...), ("transformer-decoder-dim-ffn", "~"))
    assert read_source(source).documents["config.json"]["decoder_ffn_dim"] == 128
    (source / "decoder.yml").unlink()
    assert read_source(source).documents[GENERATION]["num_beams"] == 4
    without = {key: a for key, a in arrays.items() if key != "decoder_ff_logit_out_b"}
    text = options_of(golden / "tiny-token", arrays)
    write_npz(source / "model.npz", without, text)
    refused(read_source, source, words=["decoder_ff_logit_out_b", "an array", "nothing"])
    write_npz(source / "model.npz", without, text.replace("omit-bias: false", "omit-bias: true"))
    bias = read_source(source).tensors["final_logits_bias"].load()
    pad = json.loads((golden / "tiny-token/config.json").read_text())["pad_token_id"]
    assert bias.shape == (1, 458) and bias[0, pad] == -10000 and np.count_nonzero(bias) == 1


def test_two_tables_of_one_vocabulary(make_marian, golden):
    """tied-embeddings without -src: each side has its table, both have the pieces."""
    source = make_marian()
    arrays = marian_arrays(golden / "tiny-token")
    table = arrays.pop("Wemb")
    text = options_of(golden / "tiny-token", table_names(arrays, table))
    text = text.replace("tied-embeddings-all: true", "tied-embeddings-all: false")
    text = text.replace("tied-embeddings: false", "tied-embeddings: true")
    del arrays["Wemb"]
    write_npz(source / "model.npz", arrays, text)
    model = read_source(source)
    assert "target_vocab.json" not in model.files
    assert model.documents["config.json"]["share_encoder_decoder_embeddings"] is False
    assert not model.documents["tokenizer_config.json"]["separate_vocabs"]
    np.testing.assert_array_equal(
        model.tensors["model.decoder.embed_tokens.weight"].load()[:-1], table + 1)


def table_names(arrays, table):
    """Puts the table under all names, for options_of(), which looks at its rows."""
    arrays |= {"Wemb": table, "encoder_Wemb": table, "decoder_Wemb": table + 1}
    return arrays


def test_a_vocabulary_that_is_a_sentencepiece_model(make_marian, golden, tmp_path):
    """Marian's own SentencePiece: the order in the model is the ids."""
    source = make_marian()
    for name in ("opus.vocab.yml", "source.spm", "target.spm", "decoder.yml"):
        (source / name).unlink()
    spm = (golden / "two-vocabs/source.spm").read_bytes()
    pieces = read_pieces("source.spm", spm)
    assert pieces.index("<unk>") == 0 and pieces.index("</s>") == 2
    (source / "vocab.ende.spm").write_bytes(spm)
    arrays = marian_arrays(golden / "tiny-token")
    arrays["Wemb"] = arrays["Wemb"][: len(pieces)]
    arrays["decoder_ff_logit_out_b"] = arrays["decoder_ff_logit_out_b"][:, : len(pieces)]
    write_npz(source / "model.npz", arrays, options_of(golden / "tiny-token", arrays))
    model = read_source(source)
    assert json.loads(model.files["vocab.json"]) == {
        piece: i for i, piece in enumerate([*pieces, "<pad>"])}
    assert model.files["source.spm"] == model.files["target.spm"] == spm
    assert model.documents["config.json"]["eos_token_id"] == 2
    assert model.documents[GENERATION]["bad_words_ids"] == [[len(pieces)], [0]]


@pytest.mark.parametrize("option, value, words", (
    ("type", "s2s", ["type", '"transformer"', '"s2s"']),
    ("transformer-preprocess", "n", ["transformer-preprocess", '"n"', "does not compute"]),
    ("transformer-postprocess", "da", ["transformer-postprocess", '"dan"', '"da"']),
    ("transformer-postprocess-emb", "nd", ["transformer-postprocess-emb"]),
    ("transformer-postprocess-top", "n", ["transformer-postprocess-top"]),
    ("transformer-decoder-autoreg", "rnn", ["autoreg", '"self-attention"', '"rnn"']),
    ("transformer-decoder-autoreg", "average-attention", ["autoreg", "average-attention"]),
    ("transformer-ffn-activation", "glu", ["activation", "relu, swish or gelu", '"glu"']),
    ("transformer-ffn-depth", "3", ["transformer-ffn-depth", '"3"']),
    ("transformer-train-position-embeddings", "true", ["position-embeddings"]),
    ("transformer-no-projection", "true", ["transformer-no-projection"]),
    ("transformer-tied-layers", "[1, 1]", ["transformer-tied-layers", '["1", "1"]']),
    ("transformer-attention-mask", "alibi", ["transformer-attention-mask", "alibi"]),
    ("lemma-dim-emb", "64", ["lemma-dim-emb"]),
    ("factors-combine", "concat", ["factors-combine"]),
    ("right-left", "true", ["right-left"]),
    ("input-types", "[sequence, sequence, class]", ["input-types"]),
    ("tied-embeddings-all", "false", ["tied-embeddings", "output layer"]),
    ("tied-embeddings-all", "[true]", ["tied-embeddings-all", "true or false"]),
    ("dim-vocabs", "[457, 99]", ["dim-vocabs", "457 and 457", "99"]),
    ("dim-emb", "65", ["divisor"]),
    ("dim-emb", ..., ["dim-emb", "an integer", "null"]),
    ("dim-emb", "-1", ["dim-emb", "an integer", '"-1"']),
    ("dim-emb", "60", ["Wemb", "shape [457, 60]", "[457, 64]"]),
    ("transformer-heads", "0", ["encoder_attention_heads", "from 1"]),
    ("enc-depth", "3", ["encoder_l3_self_Wq", "an array", "nothing"]),
    ("dec-depth", "1", ["decoder_l2_", "does not know"]),
    ("transformer-dim-ffn", "100", ["encoder_l1_ffn_W1", "[64, 100]", "[64, 128]"]),
    ("transformer-of-tomorrow", "true", ["transformer-of-tomorrow", "an option that Acre knows"]),
    ("skip", "{a: b}", ["special:model.yml: line"]),
))
def test_options_that_are_refused(make_marian, golden, refused, option, value, words):
    source = make_marian()
    change_options(source, golden / "tiny-token", (option, value))
    refused(read_source, source, words=["model.npz", *words])


@pytest.mark.parametrize("changed, words", (
    ({"decoder_l1_context_Wq": None}, ["decoder_l1_context_Wq", "nothing"]),
    ({"decoder_l1_self_Wi": np.zeros((4, 4), "f4")}, ["decoder_l1_self_Wi", "does not know"]),
    ({"encoder_l1_self_Wq_QuantMultA": np.zeros((1, 1), "f4")}, ["QuantMultA", "not know"]),
    ({"Wpos": np.zeros((9, 64), "f4")}, ["Wpos", "does not know"]),
    ({"encoder_l1_self_bq": np.zeros((1, 64))}, ["self_bq", "float32 or float16", "float64"]),
    ({"encoder_l1_self_bq": np.zeros((64, 1), "f4")}, ["self_bq", "shape [1, 64]", "[64, 1]"]),
    ({"Wemb": np.zeros(5, "f4")}, ["Wemb", "a matrix"]),
    ({"Wemb": np.zeros((300, 64), "f4")}, ["dim-vocabs", "300"]),
    ({"Wemb": None}, ["Wemb", "an array", "nothing"]),
))
def test_arrays_that_are_refused(make_marian, refused, changed, words):
    refused(read_source, make_marian(**changed), words=["model.npz", *words])


@pytest.mark.parametrize("name, text, words", (
    ("opus.vocab.yml", "a: 0\n", ["opus.vocab.yml: </s>", "an id"]),
    ("opus.vocab.yml", "</s>: 0\n<unk>: one\n", ["opus.vocab.yml", "<unk>", "integer", "one"]),
    ("opus.vocab.yml", "</s>: 0\n<unk>: 457\n", ["<unk>", "from 0 to 456", "457 rows"]),
    ("opus.vocab.yml", "</s>: 0\n<unk>: 0\n", ["<unk>", "an id of its own"]),
    ("opus.vocab.yml", "</s>: 0\n</s>: 1\n", ["opus.vocab.yml: line 2"]),
    ("opus.vocab.yml", "</s>: 0\n&a <unk>: 1\n", ["opus.vocab.yml: line 2"]),
    ("opus.vocab.yml", None, ["opus.vocab.yml", "this file", "nothing"]),
    ("source.spm", None, ["source.spm", "this file", "nothing"]),
    ("source.spm", "text", ["source.spm", "SentencePiece"]),
    ("decoder.yml", "vocabs: [opus.vocab.txt]", ["opus.vocab.txt", ".yml, .json or .spm"]),
    ("decoder.yml", "vocabs: [opus.fsv]", ["opus.fsv", "factored"]),
    ("decoder.yml", "vocabs: [a.yml, b.yml]", ["a.yml, b.yml", "1 vocabularies", "2"]),
    ("decoder.yml", "vocabs: [/etc/passwd]", ["passwd", ".yml, .json or .spm"]),
    ("decoder.yml", "beam-size: 100", ["decoder.yml: beam-size", "from 1 to 64", '"100"']),
    ("decoder.yml", "normalize: nan", ["decoder.yml: normalize", "from 0 to 10"]),
    ("decoder.yml", "normalize: [1]", ["decoder.yml: normalize"]),
    ("model.npz", "text", ["model.npz", "a whole zip file"]),
))
def test_files_that_are_refused(make_marian, refused, name, text, words):
    source = make_marian()
    (source / name).unlink()
    if text is not None:
        (source / name).write_text(text)
    refused(read_source, source, words=words)


@pytest.mark.parametrize("name", ("opus.vocab.yml", "source.spm", "decoder.yml", "model.npz"))
def test_files_elsewhere_are_refused(make_marian, tmp_path, refused, name):
    source = make_marian()
    (source / name).rename(tmp_path / name)
    (source / name).symlink_to(tmp_path / name)
    refused(read_source, source, words=[name, "a file of the source", "elsewhere"])


def test_vocabularies_that_do_not_match(make_marian, refused):
    source = make_marian("two-vocabs")
    path = source / "opus.trg.vocab.yml"
    swapped = {"</s>: 0": "<unk>: 0", "<unk>: 1": "</s>: 1"}
    lines = [swapped.get(line, line) for line in path.read_text().split("\n")]
    path.write_text("\n".join(lines))
    refused(read_source, source, words=["opus.trg.vocab.yml: </s>", "id 0, as in", "found 1"])
    (source / "decoder.yml").unlink()
    (source / "opus.third.vocab.yml").write_text("")
    refused(read_source, source, words=["one vocabulary", "opus.third.vocab.yml"])
    (source / "source.spm").unlink()
    (source / "source.bpe").write_text("")
    (source / "opus.third.vocab.yml").unlink()
    path.write_text("\n".join(sorted(lines)).replace("<unk>: 0", "<unk>: 1")
                    .replace("</s>: 1", "</s>: 0"))
    refused(read_source, source, words=["source.spm", "source.bpe", "BPE is not supported"])


def npz_with(tmp_path, data):
    """An npz whose only array has these bytes."""
    import zipfile

    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("special:model.yml.npy", data)
    return path


def header(text):
    data = text.encode()
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data


@pytest.mark.parametrize("data, words", (
    (b"", ["numpy's format"]),
    (b"\x93NUMPY\x09\x00", ["numpy's format"]),
    (header("{'descr': '<i1', 'fortran_order': False, 'shape': (9,)}\n") + b"12",
     ["9 bytes for shape [9]", "found 2"]),
    (header("{'descr': '<i1', 'fortran_order': False, 'shape': (-2,)}\n"), ["for shape [-2]"]),
    (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n") + b"cos\nsystem\n.",
     ["an array of bytes", "object"]),
    (header("{'descr': '|V0', 'fortran_order': False, 'shape': (1,)}\n"), ["an array of bytes"]),
    (header("__import__('os').system('ls')\n"), ["numpy's format"]),
    (header("{'descr': ('<f4'"), ["numpy's format"]),
    (header("(" * 9000), ["numpy's format"]),
    (header("{'descr': '<i1', 'fortran_order': False, 'shape': (2,)}\n") + b"\xff\xfe",
     ["UTF-8"]),
    (header("{'descr': '<i1', 'fortran_order': False, 'shape': (2,)}\n") + b"a\x00",
     ["special:model.yml: line 1"]),
))
def test_arrays_in_no_format(tmp_path, refused, data, words):
    refused(read_marian, npz_with(tmp_path, data), words=["special:model.yml", *words])


def test_npz_files_that_are_refused(make_marian, golden, tmp_path, refused):
    source = make_marian()
    data = (source / "model.npz").read_bytes()
    for part in (0.1, 0.5, 0.99):
        (source / "model.npz").write_bytes(data[: int(part * len(data))])
        refused(read_source, source, words=["model.npz", "a whole zip file"])
    (source / "model.npz").write_text("version https://git-lfs.github.com/spec/v1\n")
    refused(read_source, source, words=["model.npz", "git lfs pull"])
    arrays = marian_arrays(golden / "tiny-token")
    np.savez_compressed(source / "model.npz", **arrays)
    refused(read_source, source, words=["not compressed", "numpy.savez"])
    np.savez(source / "model.npz", **arrays)
    refused(read_source, source, words=["special:model.yml", "the model's options"])
    shutil.copyfile(source / "model.npz", source / "other.npz")
    (source / "decoder.yml").unlink()
    refused(read_source, source, words=["one .npz", "model.npz, other.npz"])
