"""Vocabularies: text to token ids and back, at token level (SentencePiece) and at byte level.

`tag` is an id that begins a source sentence which a machine wrote (batches.py).

Both write the tokenizer files of a model directory, so a run's `prepared` folder and the
exported model hold the same bytes.
"""

import hashlib
import io
import json
import unicodedata
from pathlib import Path

from .files import read_json

START, END, UNKNOWN, PAD = "<s>", "</s>", "<unk>", "<pad>"
# What stands before and after the pieces, as transformers numbers them for MarianMT, whose layers
# are post-norm, and for M2M100, whose layers are pre-norm and whose positions count from pad.
SPECIAL = {"post": ((END, UNKNOWN), (PAD,)), "pre": ((START, PAD, END, UNKNOWN), ())}


def read_pieces(path):
    import sentencepiece

    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a SentencePiece model, found no such file")
    try:
        return sentencepiece.SentencePieceProcessor(str(path))
    except RuntimeError as error:
        raise ValueError(f"{path}: expected a SentencePiece model, found a file that is damaged or "
                         "another") from error


def read_ids(path):
    """{piece: id} of vocab.json, which numbers the pieces from 0 on."""
    ids = read_json(path)
    numbers = ids.values() if isinstance(ids, dict) else [None]
    if any(type(i) is not int for i in numbers) or sorted(numbers) != [*range(len(numbers))]:
        raise ValueError(f"{path}: expected an object of pieces, numbered from 0 on")
    missing = [piece for piece in (END, UNKNOWN, PAD) if piece not in ids]
    if missing:
        raise ValueError(f"{path}: expected {', '.join(missing)} among the pieces, found none")
    return ids


class PieceVocabulary:
    """Joint SentencePiece pieces."""

    level = "token"
    files = ("source.spm", "target.spm", "vocab.json")

    def __init__(self, folder):
        self.folder = Path(folder)
        self.pieces = read_pieces(self.folder / "source.spm")
        self.ids = read_ids(self.folder / "vocab.json")
        self.names = {number: piece for piece, number in self.ids.items()}
        self.size = len(self.ids)
        self.end, self.pad = self.ids[END], self.ids[PAD]
        self.tag = self.ids.get(START)
        data = b"".join((self.folder / name).read_bytes() for name in self.files)
        self.fingerprint = hashlib.blake2b(data, digest_size=8).hexdigest()  # of what ids mean

    @staticmethod
    def train(sentences, size, folder, norm="post"):
        """Learns `size` ids in all, those of SPECIAL among them."""
        import sentencepiece

        before, after = SPECIAL[norm]
        folder, model = Path(folder), io.BytesIO()  # a file's model would tell where it was made
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="unigram",
            vocab_size=size - len(before + after) + 1,  # its own <unk> is one of them
            character_coverage=0.9998,
            byte_fallback=True,  # characters without a piece, such as emoji, can be copied
            split_digits=True,
            normalization_rule_name="nmt_nfkc",
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            unk_id=0,
            num_threads=2,
            minloglevel=1,
        )
        for name in ("source.spm", "target.spm"):
            (folder / name).write_bytes(model.getvalue())
        learnt = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        pieces = [learnt.id_to_piece(i) for i in range(learnt.get_piece_size())]
        names = [*before, *(piece for piece in pieces if piece != UNKNOWN), *after]
        text = json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False, indent=1)
        (folder / "vocab.json").write_text(text + "\n", encoding="utf-8")
        return PieceVocabulary(folder)

    def encode(self, text):
        unknown = self.ids[UNKNOWN]
        return [self.ids.get(piece, unknown) for piece in self.pieces.encode(text, out_type=str)]

    def decode(self, ids):
        return self.pieces.decode([self.names[i] for i in ids if i not in (self.end, self.pad)])


class ByteVocabulary:
    """UTF-8 bytes, as the published character-level models: pad 0, end 1, byte b is 2 + b."""

    level = "char"
    files = ("tokenizer_config.json",)
    size, end, pad, tag = 258, 1, 0, 3  # the byte 1, which no text has
    fingerprint = "bytes"
    FIRST = 2

    def __init__(self, folder):
        self.folder = Path(folder)

    @staticmethod
    def write(folder):
        config = {"tokenizer_class": "ByteTokenizer", "pad_token": PAD, "eos_token": END}
        text = json.dumps(config, indent=2)
        (Path(folder) / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
        return ByteVocabulary(folder)

    def encode(self, text):
        """Of composed text, as the engine reads it (engine/text/bytes.h)."""
        return [byte + self.FIRST for byte in unicodedata.normalize("NFC", text).encode()]

    def decode(self, ids):
        data = bytes(i - self.FIRST for i in ids if i >= self.FIRST)
        return data.decode(errors="replace")


def open_vocabulary(level, folder):
    return {"token": PieceVocabulary, "char": ByteVocabulary}[level](folder)
