"""Many sentences of ids as one flat array, as they are kept in a prepared folder."""

from dataclasses import dataclass

import numpy as np

from .vocabulary import ByteVocabulary


@dataclass
class Sentences:
    """Many sequences of ids, as one flat array and the offsets of its parts."""

    ids: np.ndarray
    offsets: np.ndarray

    @staticmethod
    def of(rows):
        rows = list(rows)
        lengths = [len(row) for row in rows]
        ids = np.concatenate([np.zeros(0, np.uint16), *(np.array(r, np.uint16) for r in rows)])
        return Sentences(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    @staticmethod
    def join(parts):
        starts = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[1:] + start for part, start in zip(parts, starts)]
        return Sentences(np.concatenate([part.ids for part in parts]),
                         np.concatenate([[0], *offsets]).astype(np.int64))

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices):
        return Sentences.of([self[i] for i in indices])

    def arrays(self, name):
        return {f"{name}_ids": self.ids, f"{name}_offsets": self.offsets}


def sentences_of(arrays, name):
    return Sentences(arrays[f"{name}_ids"], arrays[f"{name}_offsets"])


def piece_bytes(vocabulary):
    """The UTF-8 bytes of every id."""
    spelled = []
    for number in range(vocabulary.size):
        piece = vocabulary.names[number]
        is_byte = len(piece) == 6 and piece.startswith("<0x")
        spelled.append(bytes([int(piece[3:5], 16)]) if is_byte
                       else piece.replace("\u2581", " ").encode())
    return spelled


def text_bytes(sentences, vocabulary):
    """(the UTF-8 bytes of all sentences of pieces, the offsets of the sentences in them), with the
    space that begins each."""
    spelled = Sentences.of(list(piece) for piece in piece_bytes(vocabulary))
    lengths = np.diff(spelled.offsets)[sentences.ids]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    # Byte k of the text is byte k - (where its piece begins) of that piece.
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    text = spelled.ids[np.repeat(spelled.offsets[sentences.ids], lengths) + within]
    return text.astype(np.uint8), ends[sentences.offsets]


def text_of(sentences, vocabulary):
    """Sentences of pieces as text, one by one."""
    text, offsets = text_bytes(sentences, vocabulary)
    for start, end in zip(offsets[:-1], offsets[1:]):
        yield text[start:end].tobytes().decode(errors="replace").removeprefix(" ")


def as_bytes(sentences, vocabulary):
    """Sentences of pieces in ids of bytes."""
    text, offsets = text_bytes(sentences, vocabulary)
    first = offsets[:-1][np.diff(offsets) > 0]
    spaces = first[text[first] == ord(" ")]
    before = np.searchsorted(spaces, offsets)  # how many of them are gone before each offset
    return Sentences(np.delete(text, spaces).astype(np.uint16) + ByteVocabulary.FIRST,
                     offsets - before)
