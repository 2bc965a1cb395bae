"""Starting a run from a model of another pair or level instead of from random weights.

Half of what a translation model learns is the source language and how to attend: a model that
begins with another pair's layers needs far fewer steps (Kocmi and Bojar, WMT 2018). Pieces that
both vocabularies have keep their embeddings; the others begin at random. A model with more layers
has the given ones below its own, which add nothing at first: their last products begin at 0.
"""

import json
import re
from pathlib import Path

import torch

PER_PIECE = {"model.shared.weight": 0, "final_logits_bias": 1}  # the dimension that counts pieces


def weight_files(folder):
    files = sorted(Path(folder).glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder}: expected a model directory with .safetensors files")
    return files


def read_weights(folder):
    """Every tensor of a model directory, whatever its files, in float32."""
    from safetensors.torch import load_file

    return {name: w.float() for file in weight_files(folder)
            for name, w in load_file(file).items()}


def shared_pieces(vocabulary, folder):
    """(ids here, ids in the model of `folder`) of the pieces that both vocabularies have."""
    theirs_are_bytes = not (Path(folder) / "vocab.json").exists()
    if theirs_are_bytes != (vocabulary.level == "char"):
        return [], []
    if theirs_are_bytes:
        return list(range(vocabulary.size)), list(range(vocabulary.size))
    theirs = json.loads((Path(folder) / "vocab.json").read_text(encoding="utf-8"))
    both = [piece for piece in vocabulary.ids if piece in theirs]
    return [vocabulary.ids[piece] for piece in both], [theirs[piece] for piece in both]


def shape_of_layer(name, weight):
    """The shape of a tensor without the dimension that counts pieces."""
    return tuple(n for dim, n in enumerate(weight.shape) if dim != PER_PIECE.get(name))


def is_of_layer_above(name, given):
    """Whether a tensor is of a Transformer's layer that the given model lacks as a whole."""
    layer = re.match(r"model\.(?:encoder|decoder)\.layers\.\d+\.(?!weight_|bias)", name)
    return layer is not None and not any(g.startswith(layer[0]) for g in given)


def is_last_product(name):
    """Whether a tensor is of a product whose result is added to what passes by its sublayer."""
    return ".out_proj." in name or ".fc2." in name


def check_shapes(model, given, folder):
    for name, weight in model.named_parameters():
        if is_of_layer_above(name, given):
            continue
        if name not in given:
            raise ValueError(f"{folder}: expected a model of the same shape, found no {name}")
        expected, found = (shape_of_layer(name, w) for w in (weight, given[name]))
        if expected != found:
            raise ValueError(f"{folder}: {name}: expected {expected}, found {found}")


@torch.no_grad()
def inherit(model, vocabulary, folder):
    """Copies what it can of the model in `folder`; returns how many pieces were shared."""
    given = read_weights(folder)
    check_shapes(model, given, folder)
    shared = shared_pieces(vocabulary, folder)
    ours, theirs = (torch.tensor(ids, dtype=torch.long) for ids in shared)
    for name, weight in model.named_parameters():
        if is_of_layer_above(name, given):
            if is_last_product(name):
                weight.zero_()
            continue
        inherited = given[name].to(weight.device)
        if name in PER_PIECE:
            dim = PER_PIECE[name]
            rows = inherited.index_select(dim, theirs.to(weight.device))
            weight.index_copy_(dim, ours.to(weight.device), rows)
        else:
            weight.copy_(inherited)
    return len(ours)
