"""The map of pieces to ids: vocab.json, Marian's YAML, or the order in a SentencePiece model."""

import re

from .errors import ConvertError, missing, shown, unlike
from .files import read_bytes, read_json, read_text
from .sentencepiece_model import read_pieces
from .yaml_text import read_mapping

END, UNKNOWN, PAD = "</s>", "<unk>", "<pad>"


def check_ids(name, ids, size):
    """Every id is below `size` and has one piece; the end and the unknown piece are there."""
    owners = {}
    for piece, number in ids.items():
        where = f"{name}: {shown(piece)}"
        if type(number) is not int or not 0 <= number < size:
            raise unlike(where, f"an integer from 0 to {size - 1}, as the embedding has {size} "
                         "rows", shown(number))
        if owners.setdefault(number, piece) != piece:
            raise unlike(where, "an id of its own", f"{number}, which {shown(owners[number])} has")
    for piece in (END, UNKNOWN):
        if piece not in ids:
            raise missing(f"{name}: {piece}", "an id")


def integer_of(name, piece, text):
    """Marian's YAML as numbers."""
    if not isinstance(text, str) or not re.fullmatch("[0-9]{1,9}", text):
        raise unlike(f"{name}: {shown(piece)}", "an integer", shown(text))
    return int(text)


def numbered(name, pieces):
    ids = {piece: number for number, piece in enumerate(pieces)}
    if len(ids) < len(pieces):
        raise unlike(name, "different pieces", "one that is there twice")
    return ids


def read_marian_ids(path):
    """Piece -> id of a Marian vocabulary, by the file's kind as Marian does."""
    if path.suffix in (".yml", ".yaml"):
        mapping = read_mapping(path.name, read_text(path))
        return {piece: integer_of(path.name, piece, text) for piece, text in mapping.items()}
    if path.suffix == ".json":
        return read_json(path)
    if path.suffix == ".spm":
        return numbered(path.name, read_pieces(path.name, read_bytes(path)))
    if path.suffix == ".fsv":
        raise ConvertError(f"{path.name}: factored vocabularies are not supported")
    raise unlike(path.name, "a vocabulary .yml, .json or .spm", f"{path.suffix or 'no suffix'}")


def with_pad(ids, place):
    """Makes room for the padding, which Marian's own vocabularies lack, at id `place`."""
    moved = {piece: number + (number >= place) for piece, number in ids.items()}
    # A vocabulary of its own <pad> keeps it: an ordinary piece, like any other.
    moved.setdefault(PAD, place)
    return dict(sorted(moved.items(), key=lambda item: item[1]))
