"""Exporting a run: the model directory that Acre opens, and a Transformer with regular attention
also transformers, as its MarianMT or M2M100."""

import shutil
from pathlib import Path

from . import checkpoint
from .card import model_card
from .files import read_json, write_json
from .folder import replacing
from .prepared import read_sources
from .recipe import read_recipe
from .sets import held_out_sets
from .shape import LstmShape
from .vocabulary import END, PAD, UNKNOWN, open_vocabulary

LARGEST_SINGLE_FILE = 24 * 2**20
LARGEST_SHARD = 16 * 2**20
# Target ids with the end id, and the length penalty: defaults that a caller may override.
LONGEST_OUTPUT = {"token": 256, "char": 512}
# Longer sentences are split, as parts of the longest pairs: of these there were few to learn from.
LONGEST_SOURCE = {"token": 2 / 3, "char": 6 / 7}
LENGTH_PENALTY = 1.0
BEAM_THRESHOLD = 2.0
BEAM_SIZE = 4
# What the scores on the card are measured in; Acre's `auto` follows it.
COMPUTE_TYPE = "int8"


MARIAN = {
    "architectures": ["MarianMTModel"],
    "model_type": "marian",
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
}
M2M100 = {"architectures": ["M2M100ForConditionalGeneration"], "model_type": "m2m_100"}


def transformer_keys(shape, recipe):
    """What config.json says only of a Transformer."""
    return (M2M100 if shape.norm == "pre" else MARIAN) | {
        "encoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.inner,
        "decoder_ffn_dim": shape.inner,
        "activation_function": "relu",
        "attention_dropout": recipe.dropout,
        "activation_dropout": recipe.dropout,
        "scale_embedding": True,
    }


def start_id(recipe, vocabulary):
    """What decoding starts with: see model.py."""
    return vocabulary.end if recipe.norm == "pre" else vocabulary.pad


def model_config(recipe, vocabulary):
    shape = recipe.shape()
    is_lstm = isinstance(shape, LstmShape)
    config = {"model_type": "acre-lstm"} if is_lstm else transformer_keys(shape, recipe)
    config |= {
        "is_encoder_decoder": True,
        "d_model": shape.width,
        "encoder_layers": shape.encoder_layers,
        "decoder_layers": shape.decoder_layers,
        "decoder_attention_heads": shape.heads,
        "dropout": recipe.dropout,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "vocab_size": vocabulary.size,
        "decoder_vocab_size": vocabulary.size,
        "max_position_embeddings": max(LONGEST_OUTPUT.values()) + 1,
        "pad_token_id": vocabulary.pad,
        "eos_token_id": vocabulary.end,
        "decoder_start_token_id": start_id(recipe, vocabulary),
        "forced_eos_token_id": vocabulary.end,
        "dtype": "bfloat16",
        "compute_type": COMPUTE_TYPE,
    }
    return config | ({"area": shape.area} if shape.area else {})


def generation_config(recipe, vocabulary):
    return {
        "num_beams": BEAM_SIZE,
        "max_length": LONGEST_OUTPUT[recipe.level],
        "length_penalty": LENGTH_PENALTY,
        "beam_threshold": BEAM_THRESHOLD,
        "early_stopping": False,
        "bad_words_ids": [[vocabulary.pad]],
        "pad_token_id": vocabulary.pad,
        "eos_token_id": vocabulary.end,
        "decoder_start_token_id": start_id(recipe, vocabulary),
        "forced_eos_token_id": vocabulary.end,
    }


def shards(tensors):
    """The tensors in order, cut where the next would make a file too large."""
    sizes = {name: t.numel() * t.element_size() for name, t in tensors.items()}
    limit = LARGEST_SHARD if sum(sizes.values()) > LARGEST_SINGLE_FILE else LARGEST_SINGLE_FILE
    groups, filled = [{}], 0
    for name, tensor in tensors.items():
        if groups[-1] and filled + sizes[name] > limit:
            groups.append({})
            filled = 0
        groups[-1][name] = tensor
        filled += sizes[name]
    return groups


def write_tensors(tensors, path):
    from safetensors.torch import save_file

    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)  # safetensors writes for the owner only


def write_weights(weights, folder):
    """model.safetensors in bfloat16, or shards of it and their index."""
    import torch

    tensors = {name: w.to(torch.bfloat16).contiguous() for name, w in weights.items()}
    groups = shards(tensors)
    names = [f"model-{i + 1:05}-of-{len(groups):05}.safetensors" for i in range(len(groups))]
    if len(groups) == 1:
        names = ["model.safetensors"]
    places = {}
    for name, group in zip(names, groups):
        write_tensors(group, folder / name)
        places |= dict.fromkeys(group, name)
    if len(groups) > 1:
        total = sum(t.numel() * t.element_size() for t in tensors.values())
        write_json(folder / "model.safetensors.index.json",
                   {"metadata": {"total_size": total}, "weight_map": places})


def tokenizer_config(recipe):
    """What tells Acre (and transformers) the kind of vocabulary and the languages."""
    config = {
        "tokenizer_class": {"token": "MarianTokenizer", "char": "ByteTokenizer"}[recipe.level],
        "source_lang": recipe.source,
        "target_lang": recipe.target,
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": round(LONGEST_SOURCE[recipe.level] * recipe.longest),
    }
    if recipe.level == "token":
        config |= {"unk_token": UNKNOWN, "separate_vocabs": False}
    return config


def fill(folder, run, state, recipe, vocabulary):
    """Writes the files of a model, of a state of the run."""
    write_weights(state["average"], folder)
    write_json(folder / "config.json", model_config(recipe, vocabulary))
    write_json(folder / "generation_config.json", generation_config(recipe, vocabulary))
    for name in vocabulary.files:
        shutil.copyfile(run / "prepared" / name, folder / name)
    write_json(folder / "tokenizer_config.json", tokenizer_config(recipe))
    scores_path = run / "scores.json"
    scores = read_json(scores_path) if scores_path.exists() else None
    sources = read_sources(run / "prepared")
    held_out = held_out_sets(run / "prepared", recipe)
    card = model_card(recipe, state, sources["corpora"], scores, held_out)
    (folder / "README.md").write_text(card, encoding="utf-8")


def export(run, folder, last=False):
    """Writes the best weights of a run, or its last ones, as a model directory, whole or not at
    all; a model that was there is replaced."""
    run = Path(run)
    recipe = read_recipe(run / "prepared" / "recipe.json")
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    state = checkpoint.load(run / ("checkpoint.pt" if last else "best.pt"), vocabulary)
    with replacing(folder) as new:
        fill(new, run, state, recipe, vocabulary)
    print(f"export: {folder}: step {state['step']}, {state['tokens'] / 1e6:.1f} M target ids")
