"""What a translation is, as values of Python's own: nothing in them points into the engine."""

from __future__ import annotations

import ctypes
from itertools import accumulate
from typing import Any, Iterable, NamedTuple, Optional

from . import _library


class Alignment(NamedTuple):
    """Where a token of a translation stands, and the source token the decoder looked at most when
    it chose it: (start, end) as slices of the two texts. Of a token without text they are equal."""

    source: tuple[int, int]
    target: tuple[int, int]


class Translation(str):
    """The text of a translation, and what was asked for beside it.

    `score` is the sum of the natural logarithms of the token probabilities, `normalized_score`
    what hypotheses are ranked by; both None unless asked for, and so is `alignments`.
    `truncated` says that `max_length` cut one of its sentences.
    `hypotheses` has all of them, best first; in a hypothesis it is empty.
    """

    score: Optional[float]
    normalized_score: Optional[float]
    alignments: Optional[list[Alignment]]
    hypotheses: list[Translation]
    truncated: bool

    def __new__(cls, text: str, score: Optional[float] = None,
                normalized_score: Optional[float] = None,
                alignments: Optional[list[Alignment]] = None,
                hypotheses: Iterable[Translation] = (), truncated: bool = False) -> Translation:
        self = super().__new__(cls, text)
        self.score, self.normalized_score = score, normalized_score
        self.alignments, self.hypotheses = alignments, list(hypotheses)
        self.truncated = truncated
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:  # for pickle
        return (str(self), self.score, self.normalized_score, self.alignments, self.hypotheses,
                self.truncated)


class Area(NamedTuple):
    """Adjacent source tokens: `width` from token `first` on and, where the source is a grid, as
    many in each of `height` rows."""

    first: int
    width: int
    height: int
    weight: float


class Attention(NamedTuple):
    """The cross-attention that made one sentence's best translation.

    Tokens are the vocabulary's, end tokens included. `layers[layer][head][target token]` has the
    areas that the decoder attended to, the heaviest first. `columns` is the length of a row of the
    source; of a line, that of the source.
    """

    source: list[str]
    target: list[str]
    columns: int
    layers: list[list[list[list[Area]]]]


class _Offsets:
    """Byte offsets into a text's UTF-8 as indices of the str."""

    def __init__(self, text: str) -> None:
        self._is_ascii = text.isascii()
        if not self._is_ascii:
            ends = accumulate(len(character.encode()) for character in text)
            self._index = {0: 0} | {end: i for i, end in enumerate(ends, 1)}

    def span(self, place: Any) -> tuple[int, int]:
        first, end = place.first, place.first + place.n_bytes
        return (first, end) if self._is_ascii else (self._index[first], self._index[end])


def _alignments(hypothesis: Any, source: _Offsets, text: str) -> list[Alignment]:
    target = _Offsets(text)
    return [Alignment(source.span(a.source), target.span(a.target))
            for a in hypothesis.alignments[:hypothesis.n_tokens]]


def translation(result: Any, text: str, scores: bool, alignments: bool) -> Translation:
    """Copies a result of the engine; `text` is what was translated."""
    source = _Offsets(text) if alignments else None
    found = []
    for hypothesis in result.hypotheses[:result.n_hypotheses]:
        words = hypothesis.text.decode()
        found.append(Translation(
            words,
            hypothesis.score if scores else None,
            hypothesis.normalized_score if scores else None,
            _alignments(hypothesis, source, words) if source else None,
            truncated=hypothesis.is_truncated))
    best = found[0]
    return Translation(best, best.score, best.normalized_score, best.alignments, found,
                       best.truncated)


def attention(found: Any) -> Attention:
    """Copies an attention of the engine."""
    source = [token.decode(errors="replace") for token in found.source[:found.n_source]]
    target = [token.decode(errors="replace") for token in found.target[:found.n_target]]

    def areas(i: int) -> list[Area]:
        return [Area(a.first, a.width, a.height, a.weight)
                for a in found.areas[found.first[i]:found.first[i + 1]]]

    rows = range(found.n_target)
    layers = [[[areas((y * found.n_heads + h) * found.n_target + t) for t in rows]
               for h in range(found.n_heads)] for y in range(found.n_layers)]
    return Attention(source, target, found.n_columns, layers)


AttentionPointer = ctypes.POINTER(_library.Attention)
