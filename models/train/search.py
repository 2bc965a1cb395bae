"""Greedy search, for watching a training run; the engine is what translates for users."""

from itertools import groupby

import torch

from .batches import padded
from .shape import source_multiple

ROWS = {"cpu": 64, "cuda": 4096}  # sentences decoded together


@torch.inference_mode()
def greedy_ids(model, source, end, longest):
    """Target ids of each row of source [B, S], without end and pad ids."""
    model.reserve(max(source.shape[1], longest))
    seen = model.begin(*model.encode(source))
    token = torch.full((len(source), 1), model.start, device=source.device)
    finished = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    steps = []
    for _ in range(longest):
        x, seen = model.step(token, seen)
        logits = model.logits(x)[:, 0]
        logits[:, model.pad] = -torch.inf
        token = logits.argmax(-1).masked_fill(finished, end)[:, None]
        finished |= token[:, 0] == end
        steps.append(token)
        if finished.all():
            break
    return [[i for i in row if i != end] for row in torch.cat(steps, 1).tolist()]


def decoded_together(ids, padding, most):
    """Indices of the sentences `ids` in parts of up to `most`, of like lengths or, without padding,
    of one."""
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    for _, group in groupby(order, key=lambda i: None if padding else len(ids[i])):
        rows = list(group)
        yield from (rows[start : start + most] for start in range(0, len(rows), most))


def translate_ids(model, vocabulary, ids, longest):
    """Greedy translations of sentences of ids, in their order, as ids; the model must be in
    evaluation mode.

    If a memory is a grid, the sentences must fill whole rows of it.
    """
    device = next(model.parameters()).device
    multiple = source_multiple(model.shape)
    most = longest // multiple * multiple - 1
    ids = [sentence[:most] for sentence in ids]
    results = [[]] * len(ids)
    for rows in decoded_together(ids, multiple == 1, ROWS[device.type]):
        source = padded([ids[i] for i in rows], vocabulary.end, vocabulary.pad).to(device)
        limit = min(longest, 2 * source.shape[1] + 10)
        for i, row in zip(rows, greedy_ids(model, source, vocabulary.end, limit)):
            results[i] = row
    return results


def translate(model, vocabulary, sentences, longest):
    """The same of text."""
    ids = [vocabulary.encode(sentence) for sentence in sentences]
    return [vocabulary.decode(row) for row in translate_ids(model, vocabulary, ids, longest)]
