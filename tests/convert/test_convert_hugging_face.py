"""Hugging Face directories: the same weights and translations, and everything else refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors_file import read_tensors
from torch_layout import write_state

from models.convert.directory import put_in_place, write_directory
from models.convert.hugging_face import read_hugging_face

FILES = ("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json",
         "target_vocab.json", "source.spm", "target.spm")
LINES = ["Where is the dog?", "I have to go now.", "Tom was tired, and so was Mary."]
SHARED = "model.shared.weight"


@pytest.fixture
def make_source(golden, tmp_path):
    """A copy of a golden model with pytorch_model.bin in place of its safetensors."""

    def make(model="tiny-token", weights=None):
        folder = tmp_path / f"source-{model}"
        folder.mkdir()
        for name in FILES:
            if (golden / model / name).exists():
                shutil.copyfile(golden / model / name, folder / name)
        if weights:
            shutil.copyfile(weights, folder / "pytorch_model.bin")
        else:
            write_state(folder / "pytorch_model.bin", read_tensors(golden / model))
        return folder

    return make


def change(folder, name="config.json", **values):
    """Sets keys of a JSON file, or takes them out where the value is ..."""
    document = json.loads((folder / name).read_text()) | values
    document = {key: value for key, value in document.items() if value is not ...}
    (folder / name).write_text(json.dumps(document))


def change_weights(folder, golden, **tensors):
    """Replaces tensors, `__` standing for a dot, or takes them out where the value is ..."""
    found = read_tensors(golden / folder.name.removeprefix("source-"))
    found |= {name.replace("__", "."): value for name, value in tensors.items()}
    write_state(folder / "pytorch_model.bin", {k: v for k, v in found.items() if v is not ...})


def check_same(converted, golden):
    expected, found = read_tensors(golden), read_tensors(converted)
    assert set(found) == set(expected)
    for name, (dtype, array) in expected.items():
        assert found[name][0] == dtype
        np.testing.assert_array_equal(found[name][1], array)


@pytest.mark.parametrize("layout", ("zip", "legacy"))
def test_what_transformers_saved(make_source, golden, fixtures, tmp_path, acre, layout):
    source = make_source("two-vocabs", fixtures / f"{layout}.bin")
    write_directory(read_hugging_face(source), tmp_path / "model")
    check_same(tmp_path / "model", golden / "two-vocabs")
    for name in FILES:
        assert (tmp_path / "model" / name).exists()
    options = ("--json", "--beam-size", "4", "--num-hypotheses", "4")
    expected = acre(golden / "two-vocabs", LINES, *options)
    assert acre(tmp_path / "model", LINES, *options) == expected


@pytest.mark.parametrize("model", ("tiny-token", "tiny-area", "tiny-char", "odd-sizes"))
def test_every_type_and_kind(make_source, golden, tmp_path, acre, model):
    write_directory(read_hugging_face(make_source(model)), tmp_path / "model")
    check_same(tmp_path / "model", golden / model)
    assert acre(tmp_path / "model", LINES, "--json") == acre(golden / model, LINES, "--json")


def test_shards(make_source, golden, tmp_path):
    source = make_source()
    tensors = read_tensors(golden / "tiny-token")
    names = [f"pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
    halves = sorted(tensors)[::2], sorted(tensors)[1::2]
    for name, half in zip(names, halves):
        write_state(source / name, {key: tensors[key] for key in half})
    places = {key: name for name, half in zip(names, halves) for key in half}
    index = source / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (source / "pytorch_model.bin").unlink()
    write_directory(read_hugging_face(source), tmp_path / "model")
    check_same(tmp_path / "model", golden / "tiny-token")


@pytest.mark.parametrize("places, words", (
    ({"w": "../other/pytorch_model.bin"}, ["w", "the name of a .bin file", "../other"]),
    ({"w": "/etc/passwd"}, ["the name of a .bin file"]),
    ({"w": "missing.bin"}, ["missing.bin", "found nothing"]),
    ({}, ["weight_map"]),
    (["a.bin"], ["weight_map"]),
))
def test_indexes_that_are_refused(make_source, refused, places, words):
    source = make_source()
    (source / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    refused(read_hugging_face, source, words=words)


def positions(n, width):
    angles = np.arange(n)[:, None] / 10000 ** (2 * np.arange(width // 2) / width)
    return "F32", np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype("<f4")


def test_copies_of_old_files_are_left_out(make_source, golden, tmp_path):
    source = make_source()
    shared = read_tensors(golden / "tiny-token")[SHARED]
    copies = dict(lm_head__weight=shared, model__encoder__embed_tokens__weight=shared,
                  model__decoder__embed_tokens__weight=shared,
                  model__encoder__embed_positions__weight=positions(128, 64),
                  model__decoder__embed_positions__weight=positions(128, 64))
    change_weights(source, golden, **copies)
    write_directory(read_hugging_face(source), tmp_path / "model")
    check_same(tmp_path / "model", golden / "tiny-token")
    change_weights(source, golden, model__shared__weight=..., **copies)
    write_directory(read_hugging_face(source), tmp_path / "model")
    check_same(tmp_path / "model", golden / "tiny-token")


def test_decoding_keys_of_old_files(make_source, tmp_path, golden, acre):
    source = make_source()
    generation = json.loads((source / "generation_config.json").read_text())
    generation["beam_threshold"] = 2.5
    (source / "generation_config.json").unlink()
    change(source, **(generation | {"decoder_start_token_id": ...}))
    write_directory(read_hugging_face(source), tmp_path / "model")
    found = json.loads((tmp_path / "model/generation_config.json").read_text())
    assert found == {k: v for k, v in generation.items() if k != "transformers_version"}
    assert acre(tmp_path / "model", LINES) == acre(golden / "tiny-token", LINES)


def test_trained_parts_of_areas_go_along(make_source, golden, tmp_path):
    source = make_source("tiny-area")
    name = "model.encoder.layers.0.self_attn.area.fc1.weight"
    part = "F32", np.ones((16, 64), "<f4")
    change_weights(source, golden, **{name.replace(".", "__"): part})
    write_directory(read_hugging_face(source), tmp_path / "model")
    np.testing.assert_array_equal(read_tensors(tmp_path / "model")[name][1], part[1])


@pytest.mark.parametrize("values, words", (
    ({"model_type": "bart"}, ["model_type", '"marian"', '"bart"']),
    ({"d_model": "64"}, ["d_model", "an integer from 2", '"64"']),
    ({"d_model": 0}, ["d_model", "from 2 to 65536", "found 0"]),
    ({"d_model": True}, ["d_model", "true"]),
    ({"d_model": ...}, ["d_model", "found nothing"]),
    ({"encoder_layers": 65}, ["encoder_layers", "from 1 to 64"]),
    ({"encoder_layers": 3}, ["model.encoder.layers.2.self_attn.q_proj.weight", "[64, 64]"]),
    ({"decoder_layers": 1}, ["model.decoder.layers.1.", "does not know"]),
    ({"decoder_attention_heads": 5}, ["decoder_attention_heads", "a divisor of d_model"]),
    ({"encoder_ffn_dim": 100}, ["layers.0.fc1.weight", "shape [100, 64]", "found [128, 64]"]),
    ({"vocab_size": 400, "decoder_vocab_size": 400}, ["pad_token_id", "0 to 399"]),
    ({"vocab_size": 500, "decoder_vocab_size": 500}, [SHARED, "[500, 64]", "[458, 64]"]),
    ({"decoder_vocab_size": 400}, ["decoder_vocab_size", "vocab_size, which is 458"]),
    ({"activation_function": "gelu_new"}, ["activation_function", "relu, swish", "gelu_new"]),
    ({"normalize_before": True}, ["normalize_before", "false", "true", "does not compute"]),
    ({"static_position_embeddings": False}, ["static_position_embeddings"]),
    ({"tie_word_embeddings": False}, ["tie_word_embeddings"]),
    ({"share_encoder_decoder_embeddings": False}, [SHARED, "does not know"]),
    ({"eos_token_id": 458}, ["eos_token_id", "0 to 457"]),
))
def test_configs_that_are_refused(make_source, refused, values, words):
    source = make_source()
    change(source, **values)
    change(source, "generation_config.json", eos_token_id=...)
    refused(read_hugging_face, source, words=words)


@pytest.mark.parametrize("tensors, words", (
    ({"model__shared__weight": ...}, [SHARED, "a tensor [458, 64]", "found nothing"]),
    ({"model__extra__weight": ("F32", np.zeros(3, "<f4"))}, ["model.extra.weight", "not know"]),
    ({"lm_head__weight": ("F32", np.zeros((458, 64), "<f4"))}, ["lm_head.weight", "a copy of"]),
    ({"model__encoder__embed_positions__weight": ("F32", np.ones((9, 64), "<f4"))},
     ["model.encoder.embed_positions.weight", "sinusoidal"]),
    ({"model__encoder__embed_positions__weight": ("F32", np.ones((9, 60), "<f4"))},
     ["positions of width 64", "[9, 60]"]),
    ({"final_logits_bias": ("F32", np.zeros((458,), "<f4"))}, ["[1, 458]", "[458]"]),
    ({"model__encoder__layers__0__self_attn__area__w": ("F32", np.zeros(3, "<f4"))}, ["not know"]),
))
def test_weights_that_are_refused(make_source, golden, refused, tensors, words):
    source = make_source()
    change_weights(source, golden, **tensors)
    refused(read_hugging_face, source, words=words)


@pytest.mark.parametrize("name, data, words", (
    ("config.json", b"{", ["config.json", "expected JSON"]),
    ("config.json", b"[1]", ["config.json", "a JSON object", "[1]"]),
    ("config.json", b'{"a": 1, "a": 2}', ["config.json", "twice"]),
    ("config.json", b'{"a": NaN}', ["config.json", "NaN"]),
    ("config.json", b'{"a": "\\ud800"}', ["config.json", "surrogates"]),
    ("config.json", b"[" * 100000, ["config.json"]),
    ("config.json", b"\xff", ["config.json", "UTF-8", "0xff at 0"]),
    ("vocab.json", None, ["vocab.json", "found nothing"]),
    ("vocab.json", b'{"a": 0}', ["vocab.json", "</s>", "found nothing"]),
    ("vocab.json", b'{"</s>": 0, "<unk>": 0}', ["vocab.json", "an id of its own"]),
    ("vocab.json", b'{"</s>": 0, "<unk>": 1.0}', ["vocab.json", "<unk>", "an integer", "1.0"]),
    ("vocab.json", b'{"</s>": 0, "<unk>": -1}', ["vocab.json", "from 0 to 457"]),
    ("source.spm", None, ["source.spm", "found nothing"]),
    ("target.spm", b"\x0a\x7fabc", ["target.spm", "SentencePiece", "does not end"]),
    ("target.spm", b"", ["target.spm", "no pieces"]),
    ("target.spm", b"\x0a\x04\x0a\x02\xff\xff", ["target.spm", "SentencePiece"]),
    ("target.spm", b"\x0b", ["target.spm", "kind 3"]),
    ("tokenizer_config.json", b'{"tokenizer_class": "T5"}', ["tokenizer_class", '"T5"']),
    ("pytorch_model.bin", None, ["pytorch_model.bin or", "found nothing"]),
    ("pytorch_model.bin", b"PK\x03\x04", ["pytorch_model.bin", "a whole zip file"]),
))
def test_files_that_are_refused(make_source, refused, name, data, words):
    source = make_source()
    (source / name).unlink()
    if data is not None:
        (source / name).write_bytes(data)
    refused(read_hugging_face, source, words=words)


def test_a_directory_that_needs_no_conversion(golden, refused):
    refused(read_hugging_face, golden / "tiny-token", words=["Acre opens it as it is"])


# ---- Models of many languages ------------------------------------------------------------------


def test_mbart(golden, tmp_path, acre, refused):
    """Its tables of positions were learned and go along; config.json may name the tokenizer."""
    original = golden.parent / "multilingual" / "mbart-many"
    source = tmp_path / "source"
    shutil.copytree(original, source, ignore=shutil.ignore_patterns("*.safetensors"))
    write_state(source / "pytorch_model.bin", read_tensors(original))
    change(source, "tokenizer_config.json", tokenizer_class=...)
    refused(read_hugging_face, source, words=["tokenizer_class", "MBartTokenizer"])
    change(source, tokenizer_class="MBart50Tokenizer")
    write_directory(read_hugging_face(source), tmp_path / "model")
    check_same(tmp_path / "model", original)
    options = ("--json", "--source", "en", "--target", "fr", "--max-length", "40")
    assert acre(tmp_path / "model", LINES, *options) == acre(original, LINES, *options)


def stored_positions(n, pad):
    """The tables of an M2M100 of width 32, as older files hold them."""
    angles = np.arange(n)[:, None] * 10000.0 ** (-np.arange(16) / 15)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    table[pad] = 0
    return {f"model.{side}.embed_positions.weights": ("F32", table.astype("<f4"))
            for side in ("encoder", "decoder")}


@pytest.mark.parametrize("pad, found", ((..., "nothing"), (None, "nothing"), (130, "130")))
def test_stored_positions_need_the_row_of_padding(golden, tmp_path, refused, pad, found):
    original = golden.parent / "multilingual" / "m2m-many"
    source = tmp_path / "source"
    shutil.copytree(original, source, ignore=shutil.ignore_patterns("*.safetensors"))
    write_state(source / "pytorch_model.bin", read_tensors(original) | stored_positions(130, 1))
    change(source, pad_token_id=pad)
    change(source, "generation_config.json", pad_token_id=1)
    refused(read_hugging_face, source,
            words=[f"config.json: pad_token_id: expected an integer from 0 to 129, found {found}"])


@pytest.mark.parametrize("model", ("m2m-many", "nllb-many"))
def test_models_of_many_languages(golden, tmp_path, acre, model):
    """Also with the tables of positions that older files store, and without decoding keys."""
    original = golden.parent / "multilingual" / model
    source = tmp_path / "source"
    shutil.copytree(original, source,
                    ignore=shutil.ignore_patterns("*.safetensors", "golden.json", "generation*"))
    stored = stored_positions(130, pad=1)
    tensors = read_tensors(original)
    write_state(source / "pytorch_model.bin", tensors | stored)
    write_directory(read_hugging_face(source), tmp_path / "model")
    check_same(tmp_path / "model", original)
    options = ("--json", "--beam-size", "4", "--source", "en", "--target", "fr", "--max-length",
               "40")
    assert acre(tmp_path / "model", LINES, *options) == acre(original, LINES, *options)


def test_a_tokenizer_of_many_languages_is_a_file_of_the_source(golden, tmp_path, refused):
    """And JSON."""
    original = golden.parent / "multilingual" / "nllb-many"
    source = tmp_path / "source"
    shutil.copytree(original, source, ignore=shutil.ignore_patterns("*.safetensors"))
    write_state(source / "pytorch_model.bin", read_tensors(original))
    (source / "tokenizer.json").rename(tmp_path / "secret")
    (source / "tokenizer.json").symlink_to(tmp_path / "secret")
    refused(read_hugging_face, source, words=["tokenizer.json: expected a file of the source"])
    (source / "tokenizer.json").unlink()
    (source / "tokenizer.json").write_text("-----BEGIN PRIVATE KEY-----")
    refused(read_hugging_face, source, words=["tokenizer.json: expected JSON"])


def test_defaults_of_many_languages(golden, tmp_path, command, acre):
    original = golden.parent / "multilingual" / "nllb-many"
    source = tmp_path / "source"
    shutil.copytree(original, source, ignore=shutil.ignore_patterns("*.safetensors"))
    write_state(source / "pytorch_model.bin", read_tensors(original))
    given = ("--source-lang", "fra_Latn", "--target-lang", "eng_Latn")
    done = command(source, tmp_path / "model", *given)
    assert done.returncode == 0, done.stderr
    expected = acre(original, LINES, "--source", "fr", "--target", "en")
    assert acre(tmp_path / "model", LINES) == expected
    wrong = command(source, tmp_path / "other", "--source-lang", "../x")
    assert wrong.returncode != 0 and "--source-lang: expected a language" in wrong.stderr


def test_an_interruption_between_the_renames_leaves_the_old_model(tmp_path, monkeypatch):
    new, model, rename = tmp_path / "new", tmp_path / "model", Path.rename
    for folder in (new, model):
        folder.mkdir()
        (folder / "config.json").write_text(folder.name)

    def interrupted(path, target):
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put_in_place(new, model)
    assert (model / "config.json").read_text() == "model"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "new"]
