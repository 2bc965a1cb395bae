"""Greedy search, for watching a training run; the engine is what translates for users."""

import torch

from .batches import padded

ROWS = 64  # sentences decoded together


@torch.inference_mode()
def greedy_ids(model, source, end, longest):
    """Target ids of each row of source [B, S], without end and pad ids."""
    model.reserve(max(source.shape[1], longest))
    seen = model.begin(*model.encode(source))
    token = torch.full((len(source), 1), model.pad, device=source.device)
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


def translate(model, vocabulary, sentences, longest):
    """Greedy translations of sentences, in their order; the model must be in evaluation mode."""
    device = next(model.parameters()).device
    ids = [vocabulary.encode(sentence)[: longest - 1] for sentence in sentences]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    results = [""] * len(ids)
    for start in range(0, len(order), ROWS):
        rows = order[start : start + ROWS]
        source = padded([ids[i] for i in rows], vocabulary.end, vocabulary.pad).to(device)
        limit = min(longest, 2 * source.shape[1] + 10)
        for i, row in zip(rows, greedy_ids(model, source, vocabulary.end, limit)):
            results[i] = vocabulary.decode(row)
    return results
