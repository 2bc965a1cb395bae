"""A Hugging Face directory of MarianMT, M2M100, NLLB or mBART-50 whose weights are
pytorch_model.bin, or shards of it."""

import re

import numpy as np

from .directory import Model, cards_of
from .errors import ConvertError, missing, shown, unlike
from .files import check_place, read_bytes, read_json
from .layout import (BIAS, M2M100, MARIAN, MBART, OWN, SHARED, check_config, check_integer,
                     is_shared, shapes_of)
from .sentencepiece_model import read_pieces
from .tensor import ITEM_TYPES, Tensor
from .torch_file import read_torch_file
from .vocabulary import check_ids

SINGLE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
DECODING = ("num_beams", "max_length", "min_length", "max_new_tokens", "min_new_tokens",
            "length_penalty", "beam_threshold", "early_stopping", "bad_words_ids",
            "renormalize_logits", "pad_token_id", "eos_token_id", "decoder_start_token_id",
            "forced_bos_token_id", "forced_eos_token_id")
OUTPUT = "lm_head.weight"
POSITIONS = {f"model.{side}.embed_positions.{name}" for side in ("encoder", "decoder")
             for name in ("weight", "weights")}
MULTILINGUAL = ("M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast", "MBart50Tokenizer",
                "MBart50TokenizerFast")
CLASSES = ("MarianTokenizer", "ByteTokenizer", *MULTILINGUAL)
SPM, FAST = "sentencepiece.bpe.model", "tokenizer.json"
# What trained parts of areas are called: they go along, Acre itself checks them.
AREA = re.compile(r"model\.(encoder|decoder)\.layers\.\d+\.(self_attn|encoder_attn)\.area\.")
POSITION_BOUND = 1e-2  # float16 tables are this far from the formula


# ---- Weights ------------------------------------------------------------------------------------


def shard_names(folder):
    """Names of the index's files, each once."""
    places = read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise unlike(f"{INDEX}: weight_map", "a map of tensors to files", shown(places))
    for tensor, file in places.items():
        if not isinstance(file, str) or not re.fullmatch(r"[\w.-]+\.bin", file):
            raise unlike(f"{INDEX}: {tensor}", "the name of a .bin file", shown(file))
    return list(dict.fromkeys(places.values()))


def read_weights(folder):
    """Name -> Tensor of all files."""
    names = shard_names(folder) if (folder / INDEX).is_file() else [SINGLE]
    tensors = {}
    for name in names:
        if not (folder / name).is_file():
            raise missing(name, "this file")
        check_place(folder / name)
        for tensor, value in read_torch_file(folder / name).items():
            if tensor in tensors:
                raise unlike(f"{name}: {tensor}", "a tensor of one file", "it in two")
            tensors[tensor] = value
    return tensors


def same_items(one, other):
    """Whether two tensors are copies of each other, as tied ones are."""
    same = (one.dtype, one.shape) == (other.dtype, other.shape)
    return same and np.array_equal(one.load().view(np.uint8), other.load().view(np.uint8))


def positions(shape, model_type):
    """The sinusoidal table that Acre computes: sines first, then cosines. That of M2M100 begins
    before the first position."""
    n, width = shape
    half = width // 2
    steps = 10000.0 ** (-np.arange(half) / (half if model_type == MARIAN else half - 1))
    angles = np.arange(n)[:, None] * steps[None, :]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def check_positions(name, tensor, config):
    """Older files store the table; one that was trained cannot be converted."""
    d_model = config["d_model"]
    if tensor.dtype not in ITEM_TYPES or len(tensor.shape) != 2 or tensor.shape[1] != d_model:
        raise unlike(name, f"positions of width {d_model}", f"{tensor.dtype} {list(tensor.shape)}")
    if d_model % 2 or tensor.dtype == "BF16":
        return
    difference = np.abs(tensor.load() - positions(tensor.shape, config["model_type"]))
    if config["model_type"] == M2M100:
        pad = check_integer(CONFIG, config, "pad_token_id", 0, len(difference) - 1)
        difference[pad] = 0  # the row of padding is zero
    if difference.max(initial=0) > POSITION_BOUND:
        raise unlike(name, "the sinusoidal table", "another, which Acre does not compute")


def copies_in(shapes):
    """The names under which a file may hold the target's embedding again."""
    return {OUTPUT, *OWN.values()} if SHARED in shapes else {OUTPUT}


def check_copies(tensors, shapes):
    """What is left out must not differ from what is kept."""
    table = SHARED if SHARED in shapes else OWN["decoder"]
    for name, tensor in tensors.items():
        if name in copies_in(shapes) and not same_items(tensor, tensors[table]):
            raise unlike(name, f"a copy of {table}, as config.json ties them", "other weights")


def share(tensors, shapes):
    """Files of old PyTorch hold the shared embedding under the names of its users only."""
    if SHARED in shapes and SHARED not in tensors and OWN["encoder"] in tensors:
        return {SHARED: tensors[OWN["encoder"]]} | tensors
    return tensors


def check_names(tensors, shapes, config):
    for name, tensor in tensors.items():
        if name in POSITIONS and name not in shapes:
            check_positions(name, tensor, config)
        elif name not in shapes and name not in copies_in(shapes):
            if not ("area" in config and AREA.match(name)):
                raise unlike(shown(name), "a tensor of the model", "one that Acre does not know")


def check_tensor(name, tensor, shape):
    if tensor.dtype not in ITEM_TYPES:
        raise unlike(name, "type F32, F16 or BF16", tensor.dtype)
    if tensor.shape != shape:
        raise unlike(name, f"shape {list(shape)}", str(list(tensor.shape)))


def choose_tensors(tensors, config):
    """The tensors that Acre reads, in its order, from all that the files hold."""
    shapes = shapes_of(config)
    tensors = share(tensors, shapes)
    check_names(tensors, shapes, config)
    chosen: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        if name == BIAS and name not in tensors:
            continue  # Acre takes zeros, as MarianMT does
        if name not in tensors:
            raise missing(name, f"a tensor {list(shape)}")
        check_tensor(name, tensors[name], shape)
        chosen[name] = tensors[name]
    check_copies(tensors, shapes)
    for name, tensor in tensors.items():
        if AREA.match(name):
            check_tensor(name, tensor, tensor.shape)
            chosen[name] = tensor
    return chosen


# ---- Documents ----------------------------------------------------------------------------------


def generation_of(folder, config):
    """generation_config.json, or the same keys of a config.json from before there was one."""
    if (folder / GENERATION).is_file():
        return read_json(folder / GENERATION)
    return {key: config[key] for key in DECODING if config.get(key) is not None}


def check_tokens(config, generation):
    """Padding and end must be known; where nothing else is said, decoding starts with padding, or
    in M2M100 and mBART with the end."""
    last = (config.get("decoder_vocab_size") or config["vocab_size"]) - 1
    tokens = {key: config.get(key) for key in ("pad_token_id", "eos_token_id")}
    tokens |= {key: value for key, value in generation.items() if key in tokens}
    for key, value in tokens.items():
        if isinstance(value, list) and len(value) == 1:
            tokens[key] = value[0]
        check_integer(CONFIG, tokens, key, 0, last)
    if config.get("decoder_start_token_id") is None:
        start = "pad_token_id" if config["model_type"] == MARIAN else "eos_token_id"
        generation.setdefault("decoder_start_token_id", tokens[start])


def tokenizer_of(folder, model):
    """The class stands here, in config.json, or else the files tell."""
    config = read_json(folder / TOKENIZER) if (folder / TOKENIZER).is_file() else {}
    kind = config.get("tokenizer_class") or model.get("tokenizer_class") or class_of(folder, model)
    config["tokenizer_class"] = kind
    if kind not in CLASSES:
        raise unlike(f"{TOKENIZER}: tokenizer_class", "one of " + ", ".join(CLASSES), shown(kind))
    return config


def class_of(folder, model):
    """As Acre tells it where no class is named."""
    if model["model_type"] == MBART:
        return "MBartTokenizer"
    if not any((folder / name).is_file() for name in (SPM, FAST)):
        return "MarianTokenizer"
    return "M2M100Tokenizer" if (folder / "vocab.json").is_file() else "NllbTokenizer"


def multilingual_files(folder, tokenizer, config):
    """Of M2M100 vocab.json and the SentencePiece model, of the others that or tokenizer.json, or
    both."""
    files = {}
    if tokenizer["tokenizer_class"] == "M2M100Tokenizer":
        check_ids("vocab.json", read_json(folder / "vocab.json"), config["vocab_size"])
        files["vocab.json"] = read_bytes(folder / "vocab.json")
    elif (folder / FAST).is_file():
        read_json(folder / FAST)
        files[FAST] = read_bytes(folder / FAST)
    if (folder / SPM).is_file() or FAST not in files:
        files[SPM] = read_bytes(folder / SPM)
        read_pieces(SPM, files[SPM])
    return files


def vocabulary_files(folder, tokenizer, config):
    if tokenizer["tokenizer_class"] == "ByteTokenizer":
        return {}
    if tokenizer["tokenizer_class"] in MULTILINGUAL:
        return multilingual_files(folder, tokenizer, config)
    sizes = {"vocab.json": config["vocab_size"]}
    if tokenizer.get("separate_vocabs") is True:
        sizes["target_vocab.json"] = config.get("decoder_vocab_size") or config["vocab_size"]
    files = {}
    for name, size in sizes.items():
        check_ids(name, read_json(folder / name), size)
        files[name] = read_bytes(folder / name)
    for name in ("source.spm", "target.spm"):
        files[name] = read_bytes(folder / name)
        read_pieces(name, files[name])
    return files


def read_hugging_face(folder):
    """The Model in a folder."""
    if not any((folder / name).is_file() for name in (SINGLE, INDEX)):
        if any(folder.glob("*.safetensors")):
            raise ConvertError(f"{folder.name}: has model.safetensors: Acre opens it as it is")
        raise missing(f"{folder.name}", f"{SINGLE} or {INDEX}")
    config = read_json(folder / CONFIG)
    check_config(CONFIG, config)
    generation = generation_of(folder, config)
    check_tokens(config, generation)
    tokenizer = tokenizer_of(folder, config)
    documents = {CONFIG: config, GENERATION: generation, TOKENIZER: tokenizer}
    files = cards_of(folder) | vocabulary_files(folder, tokenizer, config)
    return Model(choose_tensors(read_weights(folder), config), documents, files)
