"""The vocabularies that training makes."""

import pytest

from models.train.vocabulary import ByteVocabulary, PieceVocabulary

pytest.importorskip("sentencepiece")

WORDS = "the old man saw a small house near our long river while it rained".split()


def learnt(folder):
    sentences = [" ".join(WORDS[(i * step + start) % len(WORDS)] for i in range(6))
                 for step in (1, 3, 5, 7, 11) for start in range(len(WORDS))]
    return PieceVocabulary.train(sentences, 285, folder)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    return learnt(tmp_path_factory.mktemp("pieces"))


def test_there_are_as_many_ids_as_were_asked_for(pieces):
    assert pieces.size == 285 and sorted(pieces.ids.values()) == list(range(285))
    assert (pieces.end, pieces.pad) == (0, 284)


def test_files_do_not_tell_where_they_were_made(tmp_path):
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
        learnt(folder)
    here, there = ([(folder / name).read_bytes() for name in PieceVocabulary.files]
                   for folder in folders)
    assert here == there


def test_bytes_are_of_composed_text(tmp_path):
    vocabulary = ByteVocabulary(tmp_path)
    assert vocabulary.encode("Zu\u0308rich") == vocabulary.encode("Z\u00fcrich")


@pytest.mark.parametrize("text", ["the old river", "it rained 😀👍🏽", "naïve Zürich → ✓"])
def test_what_has_no_piece_is_spelled_in_bytes(pieces, text):
    ids = pieces.encode(text)
    assert pieces.ids["<unk>"] not in ids
    assert pieces.decode([*ids, pieces.end]) == text


@pytest.mark.parametrize("text", ["the old river", "it rained 😀👍🏽", "naïve Zürich → ✓"])
def test_bytes_are_numbered_from_two(tmp_path, text):
    vocabulary = ByteVocabulary.write(tmp_path)
    ids = vocabulary.encode(text)
    assert ids == [2 + byte for byte in text.encode()]
    assert vocabulary.decode([*ids, vocabulary.end]) == text
