"""Warm starts: a run begins as a model of another pair or level instead of with random weights.

Half of what a translation model learns is the source language and how to attend: a model that
begins with another pair's layers needs far fewer steps (Kocmi and Bojar, WMT 2018). Pieces that
both vocabularies have keep their embeddings; the others begin at random, or with those of a second
model. A model with more layers has the given ones below its own, which add nothing at first: their
last products begin at 0. Of a model with other areas, what an attention gives is scaled: it begins
as large as it was.
"""

import re
from pathlib import Path

import torch

from .files import read_json
from .parent import check_parent, output_scales

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
    theirs = read_json(Path(folder) / "vocab.json")
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
    """Whether a tensor is of a product whose result is added to what passes by its sublayer.

    An attention's `area.fc2` is not: it makes keys, which learn nothing while it is 0.
    """
    return ".out_proj." in name or (".fc2." in name and ".area." not in name)


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
    check_parent(model.shape, folder)
    given = read_weights(folder)
    check_shapes(model, given, folder)
    shared = shared_pieces(vocabulary, folder)
    ours, theirs = (torch.tensor(ids, dtype=torch.long) for ids in shared)
    scales = output_scales(model.shape, folder)
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
            weight.copy_(inherited * scales.get(name, 1.0))
    return len(ours)


@torch.no_grad()
def inherit_pieces(model, vocabulary, first, second):
    """Gives the pieces that the model in `first` lacks their embeddings in the model in `second`,
    put into the space of `model`, which has inherited `first`: by the linear map that comes nearest
    to its embeddings, in least squares, over the pieces that all have. Returns how many there were.
    """
    known = set(shared_pieces(vocabulary, first)[0])
    pairs = list(zip(*shared_pieces(vocabulary, second), strict=True))
    if not pairs:
        raise ValueError(f"{second}: vocab.json: expected pieces of this vocabulary, found none")
    common, new = ([p for p in pairs if (p[0] in known) == had] for had in (True, False))
    if not new:
        return 0
    given, table = read_weights(second).get("model.shared.weight"), model.model.shared.weight
    if given is None:
        raise ValueError(f"{second}: expected a model, found no model.shared.weight")
    if len(common) < given.shape[1]:
        raise ValueError(f"{second}: expected at least {given.shape[1]} pieces in common with "
                         f"{first}, to put its embeddings into that space; found {len(common)}")
    (ours, theirs), (new_ours, new_theirs) = (torch.tensor(p).T for p in (common, new))
    here = table[ours.to(table.device)].cpu()
    into = torch.linalg.lstsq(given[theirs], here).solution
    table[new_ours.to(table.device)] = (given[new_theirs] @ into).to(table.device)
    return len(new)
