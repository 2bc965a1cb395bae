"""A Marian model, NAME.npz with its vocabulary, as a model directory.

Marian multiplies rows by matrices [in, out], PyTorch matrices [out, in] by columns: weights are
transposed. Marian has no padding: decoding starts from an embedding of zeros, for which a row is
added that no softmax can see.
"""

import numpy as np

from .directory import Model, cards_of
from .errors import ConvertError, missing, shown, unlike
from .files import json_bytes, read_bytes, read_text
from .layout import BIAS, OWN, SHARED, check_config, shapes_of
from .marian_options import Options, config_of, generation_of
from .npz import Npz
from .sentencepiece_model import read_pieces
from .tensor import Tensor
from .vocabulary import END, UNKNOWN, check_ids, read_marian_ids, with_pad
from .yaml_text import read_mapping

OPTIONS = "special:model.yml"
TABLES = {SHARED: "Wemb", OWN["encoder"]: "encoder_Wemb", OWN["decoder"]: "decoder_Wemb"}
OUTPUT_BIAS = "decoder_ff_logit_out_b"
PAD_BIAS = -10000.0  # as a logit: no probability, in float16 too
# Marian's gelu(x) is x * sigmoid(1.702 x), not the erf of transformers and Acre.
GELU_SLOPE = np.float32(1.702)
ATTENTIONS = {"self_attn": "self", "encoder_attn": "context"}
PROJECTIONS = {"q_proj": "q", "k_proj": "k", "v_proj": "v", "out_proj": "o"}
FEED_FORWARD = {
    "fc1.weight": "ffn_W1",
    "fc1.bias": "ffn_b1",
    "fc2.weight": "ffn_W2",
    "fc2.bias": "ffn_b2",
    "final_layer_norm.weight": "ffn_ffn_ln_scale",
    "final_layer_norm.bias": "ffn_ffn_ln_bias",
}


def part_names():
    """What follows the layer: `self_attn.q_proj.weight` -> `self_Wq`, and so on."""
    parts = dict(FEED_FORWARD)
    for ours, theirs in ATTENTIONS.items():
        for projection, letter in PROJECTIONS.items():
            parts[f"{ours}.{projection}.weight"] = f"{theirs}_W{letter}"
            parts[f"{ours}.{projection}.bias"] = f"{theirs}_b{letter}"
        parts[f"{ours}_layer_norm.weight"] = f"{theirs}_Wo_ln_scale"
        parts[f"{ours}_layer_norm.bias"] = f"{theirs}_Wo_ln_bias"
    return parts


PARTS = part_names()


def marian_name(name):
    """`model.encoder.layers.0.fc1.weight` -> `encoder_l1_ffn_W1`, and so on."""
    if name in TABLES:
        return TABLES[name]
    if name == BIAS:
        return OUTPUT_BIAS
    _, side, _, layer, part = name.split(".", 4)
    return f"{side}_l{int(layer) + 1}_{PARTS[part]}"


# ---- Tensors ------------------------------------------------------------------------------------


def rescaled(name, array, activation):
    """gelu(x) = swish(1.702 x) / 1.702: the factor goes into the weights on both sides."""
    if activation != "gelu":
        return array
    if ".fc1." in name:
        return array * GELU_SLOPE.astype(array.dtype)
    return array / GELU_SLOPE.astype(array.dtype) if name.endswith("fc2.weight") else array


def with_pad_row(name, array, pad):
    if name in TABLES:
        return np.insert(array, pad, 0, axis=0)
    return np.insert(array, pad, PAD_BIAS, axis=1) if name == BIAS else array


class Converter:
    """The tensors of one npz under our names."""

    def __init__(self, npz, options, config):
        self.npz, self.activation, self.config = npz, options.activation(), config
        self.omits_bias = options.flag("output-omit-bias")

    def own_shape(self, name, shape):
        """The shape in the npz: without the padding, transposed, biases with a row of their own."""
        if name in TABLES:
            return (shape[0] - 1, shape[1])
        if name == BIAS:
            return (1, shape[1] - 1)
        return (1, *shape) if len(shape) == 1 else shape[::-1]

    def no_bias(self, shape):
        """That of a model which has none; the padding has its own all the same."""
        zeros = np.zeros(self.own_shape(BIAS, shape), np.float32)
        return with_pad_row(BIAS, zeros, self.config["pad_token_id"])

    def load(self, name, shape):
        _, array = self.npz.floats(marian_name(name))
        array = array.reshape(self.own_shape(name, shape))
        if name not in TABLES and name != BIAS:
            array = array.T.reshape(shape)
        return with_pad_row(name, rescaled(name, array, self.activation),
                            self.config["pad_token_id"])

    def tensor(self, name, shape):
        if name == BIAS and self.omits_bias:
            return Tensor("F32", shape, lambda: self.no_bias(shape))
        where = f"{self.npz.name}: {marian_name(name)}"
        dtype, array = self.npz.floats(marian_name(name))
        expected = self.own_shape(name, shape)
        # Some versions of Marian store biases and scales as vectors.
        if array.shape != expected and not (expected[0] == 1 and array.shape == expected[1:]):
            raise unlike(where, f"shape {list(expected)}", str(list(array.shape)))
        return Tensor(dtype, shape, lambda: self.load(name, shape))

    def tensors(self):
        shapes = shapes_of(self.config)
        known = {marian_name(name) for name in shapes} | {OPTIONS}
        for name in self.npz.names:
            if name not in known:
                raise unlike(f"{self.npz.name}: {shown(name)}", "a tensor of such a model",
                             "one that Acre does not know")
        return {name: self.tensor(name, shape) for name, shape in shapes.items()}


# ---- Vocabularies -------------------------------------------------------------------------------


def find_vocabularies(folder, decoder):
    """One path, or the source's and the target's."""
    named = decoder.get("vocabs")
    if isinstance(named, list) and named and all(isinstance(path, str) for path in named):
        # Where they were when the model was trained does not matter.
        return list(dict.fromkeys(folder / path.rsplit("/", 1)[-1] for path in named))
    found = sorted(path for path in folder.iterdir()
                   if "vocab" in path.name and path.suffix in (".yml", ".json", ".spm", ".fsv"))
    sides = [[path for path in found if side in path.name] for side in ("src", "trg")]
    if len(found) == 2 and all(len(side) == 1 for side in sides):
        return sides[0] + sides[1]
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:4]) or "nothing"
        raise unlike(f"{folder.name}", "one vocabulary, *vocab.yml, or *src.vocab.yml and "
                     "*trg.vocab.yml, or a decoder.yml that names them", names)
    return found


def read_vocabularies(paths, rows):
    """[ids] with the padding, one for each path; checked against the embeddings' rows."""
    if len(paths) > len(rows) or (len(paths) < len(rows) and rows[0] != rows[1]):
        raise unlike(", ".join(path.name for path in paths),
                     f"{len(rows)} vocabularies, one for each embedding", f"{len(paths)}")
    # The padding has one id on both sides: behind the smaller vocabulary.
    pad, vocabularies = min(rows), []
    for path, size in zip(paths, rows):
        ids = read_marian_ids(path)
        check_ids(path.name, ids, size)
        vocabularies.append(with_pad(ids, pad))
    if vocabularies[0][END] != vocabularies[-1][END]:
        raise unlike(f"{paths[-1].name}: {END}", f"id {vocabularies[0][END]}, as in "
                     f"{paths[0].name}", str(vocabularies[-1][END]))
    return vocabularies


def sentencepiece_files(folder, paths):
    """source.spm and target.spm: files of these names, or vocabularies that are such models."""
    files = {}
    for name, vocabulary in (("source.spm", paths[0]), ("target.spm", paths[-1])):
        path = vocabulary if vocabulary.suffix == ".spm" else folder / name
        if not path.is_file() and (folder / name).with_suffix(".bpe").is_file():
            raise ConvertError(f"{name}: expected a SentencePiece model, found "
                               f"{path.with_suffix('.bpe').name}: BPE is not supported")
        files[name] = read_bytes(path)
        read_pieces(path.name, files[name])
    return files


# ---- All together -------------------------------------------------------------------------------


def rows_of(npz, options):
    """Rows of the source's and of the target's embedding."""
    names = ["Wemb"] if options.is_shared() else ["encoder_Wemb", "decoder_Wemb"]
    rows = []
    for name in names:
        _, array = npz.floats(name)
        if array.ndim != 2:
            raise unlike(f"{npz.name}: {name}", "a matrix", f"shape {list(array.shape)}")
        rows.append(array.shape[0])
    return rows


def read_options(npz):
    if OPTIONS not in npz.names:
        raise missing(f"{npz.name}: {OPTIONS}", "the model's options")
    where = f"{npz.name}: {OPTIONS}"
    return Options(where, read_mapping(where, npz.text(OPTIONS)))


def read_decoder(path):
    """(name, mapping) of decoder.yml, which Marian writes as decoder.yml or NAME.npz.decoder.yml"""
    for candidate in (path.parent / "decoder.yml", path.with_name(path.name + ".decoder.yml")):
        if candidate.is_file():
            return candidate.name, read_mapping(candidate.name, read_text(candidate))
    return "decoder.yml", {}


def tokenizer_config(vocabularies):
    return {"tokenizer_class": "MarianTokenizer", "eos_token": END, "unk_token": UNKNOWN,
            "pad_token": "<pad>", "separate_vocabs": len(vocabularies) == 2}


def notes_of(name, decoder):
    if decoder.get("word-penalty") in (None, "0", "0.0"):
        return []
    return [f"{name}: word-penalty {decoder['word-penalty']} is dropped: Acre has none"]


def documents_of(options, rows, vocabularies, name, decoder):
    """config.json and the files beside it, as values."""
    target = vocabularies[-1]
    config = config_of(options, rows[0] + 1, rows[-1] + 1, min(rows), target[END])
    check_config(options.name, config)
    return {
        "config.json": config,
        "generation_config.json": generation_of(name, decoder, config, target[UNKNOWN]),
        "tokenizer_config.json": tokenizer_config(vocabularies),
    }


def read_marian(path):
    """The Model in an npz and in the folder around it."""
    npz, folder = Npz(path), path.parent
    options = read_options(npz)
    rows = rows_of(npz, options)
    options.check_rows(rows)
    name, decoder = read_decoder(path)
    paths = find_vocabularies(folder, decoder)
    vocabularies = read_vocabularies(paths, rows)
    documents = documents_of(options, rows, vocabularies, name, decoder)
    files = cards_of(folder) | sentencepiece_files(folder, paths)
    for file, ids in zip(("vocab.json", "target_vocab.json"), vocabularies):
        files[file] = json_bytes(ids)
    tensors = Converter(npz, options, documents["config.json"]).tensors()
    return Model(tensors, documents, files, notes_of(name, decoder))
