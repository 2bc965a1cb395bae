"""Batches: pairs drawn corpus by corpus in the recipe's proportions, grouped by length.

Where the source is attended to as a grid, a batch has sources of one length, which fill whole rows.

Drawing works in chunks. Chunk k holds, of every corpus, the next pairs of an endless sequence of
permutations of it, so a pair returns only when all others of its corpus have had their turn. A
chunk depends on nothing but the data, the seed and k: a run continues at (chunk, batch) without
any other state.
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from .corpus import BACK_SUFFIX
from .prepared import read_arrays, read_sources
from .shape import source_multiple

# Large enough that pairs sorted by length pad little, small enough that the mix stays even.
CHUNK_TARGET_IDS = 1_000_000
CHUNK_ORDER = 1 << 20  # stands where a corpus number would in a seed
AHEAD = 4  # batches that are made before they are asked for


@dataclass
class Position:
    """Where the next batch comes from."""

    phase: int = 0
    chunk: int = 0
    batch: int = 0


class Pairs:
    """The prepared training pairs as ids."""

    def __init__(self, folder, recipe):
        names = [f"{language}_{part}" for language in (recipe.source, recipe.target)
                 for part in ("ids", "offsets")]
        arrays = read_arrays(folder / "train.npz", *names, "origin")
        self.source_ids, self.source_offsets, self.target_ids, self.target_offsets = (
            arrays[name] for name in names)
        self.origin = arrays["origin"]
        self.origins = list(read_sources(folder)["corpora"])
        self.recipe = recipe
        self.tagged = np.isin(self.origin, [number for number, name in enumerate(self.origins)
                                            if name.endswith(BACK_SUFFIX)])
        # With the end id, and the tag.
        self.source_lengths = np.diff(self.source_offsets) + 1 + self.tagged
        self.target_lengths = np.diff(self.target_offsets) + 1
        self.multiple = source_multiple(recipe.shape())
        self.whole = self.source_lengths % self.multiple == 0  # the others are not trained on

    def source(self, index):
        return self.source_ids[self.source_offsets[index] : self.source_offsets[index + 1]]

    def target(self, index):
        return self.target_ids[self.target_offsets[index] : self.target_offsets[index + 1]]


class Sampler:
    """The chunks and batches of one phase of the recipe."""

    def __init__(self, pairs, phase, seed):
        self.pairs, self.phase, self.seed = pairs, phase, seed
        self.lengths = np.maximum(pairs.source_lengths, pairs.target_lengths)
        eligible = pairs.whole & (self.lengths <= phase.max_length)
        if not eligible.any():
            raise ValueError(f"phases: expected pairs of at most {phase.max_length} ids a side "
                             f"and a multiple of {pairs.multiple} of the source, found none")
        self.members = [np.flatnonzero(eligible & (pairs.origin == o))
                        for o in range(len(pairs.origins))]
        self.quotas = self.share_out()

    def share_out(self):
        """How many pairs of each corpus a chunk holds, by the recipe's mix of target ids."""
        recipe, weighted, totals = self.pairs.recipe, [], {}
        for name, members in zip(self.pairs.origins, self.members):
            group, weight = recipe.group_of(name)
            ids = weight * self.pairs.target_lengths[members].sum()
            totals[group] = totals.get(group, 0) + ids
            weighted.append((group, weight))
        # A group without a pair of this length leaves its share to the others.
        present = sum(recipe.mix[group].share for group, ids in totals.items() if ids)
        if not present:
            raise ValueError(f"mix: expected a share and a weight above 0 of a corpus with pairs "
                             f"of at most {self.phase.max_length} ids a side, found none")
        quotas = []
        for (group, weight), members in zip(weighted, self.members):
            rate = recipe.mix[group].share / present / totals[group] if totals[group] else 0
            quotas.append(rate * weight * len(members) * CHUNK_TARGET_IDS)
        return quotas

    def drawn(self, origin, chunk):
        """The pairs of one corpus in one chunk: a stretch of its endless shuffled sequence."""
        members, quota = self.members[origin], self.quotas[origin]
        start, stop = int(chunk * quota), int((chunk + 1) * quota)
        parts = []
        while start < stop:
            turn, first = divmod(start, len(members))
            last = min(len(members), first + stop - start)
            order = np.random.default_rng((self.seed, origin, turn)).permutation(len(members))
            parts.append(members[order[first:last]])
            start += last - first
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def chunk(self, number):
        """The batches of a chunk, arrays of pair indices, in random order."""
        drawn = [self.drawn(origin, number) for origin in range(len(self.members))]
        indices = np.concatenate(drawn)
        chance = np.random.default_rng((self.seed, CHUNK_ORDER, number))
        chance.shuffle(indices)  # the sorts are stable: equal lengths stay in random order
        by_source = np.argsort(self.pairs.source_lengths[indices], kind="stable")
        batches = []
        for group in self.batched_together(indices[by_source]):
            by_target = np.argsort(self.pairs.target_lengths[group], kind="stable")
            batches += self.cut(group[by_target])
        chance.shuffle(batches)
        return batches

    def batched_together(self, indices):
        """The pairs, which are sorted by source length, in parts of which to make batches."""
        if self.pairs.multiple == 1:
            return [indices]
        steps = np.diff(self.pairs.source_lengths[indices])
        return np.split(indices, np.flatnonzero(steps) + 1)

    def cut(self, indices):
        """Consecutive pairs while rows times the longest side stay within the batch size."""
        start, longest = 0, 0
        for i, length in enumerate(self.lengths[indices]):
            longest = max(longest, length)
            if (i + 1 - start) * longest > self.phase.batch_tokens and i > start:
                yield indices[start:i]
                start, longest = i, length
        if start < len(indices):
            yield indices[start:]


def padded(rows, end, pad):
    """int64 [rows, longest + 1]: each row followed by the end id, then pads."""
    longest = max(map(len, rows)) + 1
    block = np.full((len(rows), longest), pad, np.int64)
    for row, ids in zip(block, rows):
        row[: len(ids)] = ids
        row[len(ids)] = end
    return torch.from_numpy(block)


def batches_from(position, pairs, recipe, vocabulary):
    """Endlessly (the position after it, source, target) of one phase's batches, as padded ids."""
    phase, chunk, first = position.phase, position.chunk, position.batch
    sampler = Sampler(pairs, recipe.phases[phase], recipe.seed + phase)
    end, pad, tag = vocabulary.end, vocabulary.pad, vocabulary.tag
    while True:
        batches = sampler.chunk(chunk)
        for number in range(first, len(batches)):
            source = padded([np.append(tag, pairs.source(i)) if pairs.tagged[i] else
                             pairs.source(i) for i in batches[number]], end, pad)
            target = padded([pairs.target(i) for i in batches[number]], end, pad)
            yield Position(phase, chunk, number + 1), source, target
        chunk, first = chunk + 1, 0


class Stream:
    """The endless sequence of batches of a run, from any position on.

    A thread makes the next few while the last is learnt: a GPU would wait for them.
    """

    def __init__(self, pairs, recipe, vocabulary, position):
        if pairs.tagged.any() and vocabulary.tag is None:
            raise ValueError(f"{BACK_SUFFIX}: expected the vocabulary of a pre-norm model, which "
                             "has a tag for corpora of that name, found one without")
        self.pairs, self.recipe, self.vocabulary = pairs, recipe, vocabulary
        self.worker = ThreadPoolExecutor(max_workers=1)
        self.begin(position)

    def begin(self, position):
        self.position = position  # after the batches that next() gave
        batches = batches_from(position, self.pairs, self.recipe, self.vocabulary)
        self.make = partial(next, batches)
        self.pending = deque(self.worker.submit(self.make) for _ in range(AHEAD))

    def enter_phase(self, phase):
        if phase != self.position.phase:
            self.begin(Position(phase=phase))

    def next(self):
        """(source, target) of the next batch, as padded id tensors."""
        self.pending.append(self.worker.submit(self.make))
        self.position, source, target = self.pending.popleft().result()
        return source, target
