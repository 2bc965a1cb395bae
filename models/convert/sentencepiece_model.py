"""A SentencePiece model, as far as its list of pieces: a protocol buffer, ModelProto."""

from .errors import ConvertError, unlike

PIECES_FIELD, TEXT_FIELD = 1, 1  # of ModelProto; of its SentencePiece
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
LONGEST_VARINT = 10


def read_varint(data, at):
    """(value, where it ends)"""
    value = 0
    for i in range(LONGEST_VARINT):
        if at + i >= len(data):
            break
        value |= (data[at + i] & 0x7F) << (7 * i)
        if data[at + i] < 0x80:
            return value, at + i + 1
    raise ValueError("a number that does not end")


def fields(data):
    """(number, value) of each field; a value is bytes, or the number of a varint."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == LENGTH:
            n, at = read_varint(data, at)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            n = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if n > len(data) - at:
            raise ValueError("a field that does not end")
        yield tag >> 3, data[at : at + n]
        at += n


def piece_of(data):
    for number, value in fields(data):
        if number == TEXT_FIELD and isinstance(value, bytes):
            return value.decode()
    raise ValueError("a piece without text")


def read_pieces(name, data):
    """The pieces in the order of their ids."""
    try:
        pieces = [piece_of(value) for number, value in fields(data)
                  if number == PIECES_FIELD and isinstance(value, bytes)]
    except ValueError as error:
        raise ConvertError(f"{name}: expected a SentencePiece model, found: {error}") from None
    if not pieces:
        raise unlike(name, "a SentencePiece model", "no pieces")
    return pieces
