"""What is prepared of corpora: sentences that are held out, vocabularies."""

import json
import shutil

import pytest

pytest.importorskip("torch")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train import corpus  # noqa: E402
from models.train.batches import Pairs  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.recipe import read_recipe  # noqa: E402
from models.train.sets import read_set, whole_rows  # noqa: E402
from models.train.vocabulary import PieceVocabulary, open_vocabulary  # noqa: E402
from small import RECIPE  # noqa: E402


def test_held_out_sentences_are_not_in_training(run, recipe, pairs):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    trained = {corpus.normalised(vocabulary.decode(pairs.source(i).tolist()))
               for i in range(len(pairs.origin))}
    for name in ("heldout/tatoeba.en", "heldout/it.en", "eval/newstest2013.en"):
        lines = (run / "prepared" / name).read_text(encoding="utf-8").splitlines()
        assert lines and not trained & {corpus.normalised(line) for line in lines}


def test_vocabulary_round_trip(run, recipe):
    vocabulary = open_vocabulary(recipe.level, run / "prepared")
    ids = vocabulary.encode("A dog sees the house.")
    assert vocabulary.decode(ids + [vocabulary.end, vocabulary.pad]) == "A dog sees the house."
    assert max(ids) < vocabulary.size
    if recipe.level == "token" and recipe.norm == "pre":
        assert [vocabulary.names[i] for i in range(4)] == ["<s>", "<pad>", "</s>", "<unk>"]
        assert (vocabulary.size, vocabulary.pad, vocabulary.end) == (350, 1, 2)
    elif recipe.level == "token":
        assert (vocabulary.ids["</s>"], vocabulary.ids["<unk>"]) == (0, 1)
        assert vocabulary.pad == vocabulary.size - 1 == 349
    else:
        assert (vocabulary.pad, vocabulary.end, ids[0]) == (0, 1, 2 + ord("A"))


def test_either_language_is_the_source(tmp_path, corpora):
    """The same text and vocabulary the other way round: pairs are swapped, all else is alike."""
    folders = tmp_path / "forth", tmp_path / "back"
    for folder, languages in zip(folders, (("en", "de"), ("de", "en"))):
        recipe = tmp_path / f"{folder.name}.json"
        recipe.write_text(json.dumps(RECIPE | dict(zip(("source", "target"), languages))))
        prepare(recipe, corpora, corpora / "eval", folder,
                vocabulary=None if folder is folders[0] else folders[0])
    for name in PieceVocabulary.files:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    forth, back = (Pairs(folder, read_recipe(folder / "recipe.json")) for folder in folders)
    vocabulary = open_vocabulary("token", folders[1])
    for i in range(0, len(forth.origin), 97):
        assert forth.source(i).tolist() == back.target(i).tolist()
        assert forth.target(i).tolist() == back.source(i).tolist()
    read = {vocabulary.decode(back.source(i).tolist()) for i in range(len(back.origin))}
    lines = (corpora / "tatoeba.en-de.tsv").read_text(encoding="utf-8").splitlines()
    assert sum(line.split("\t")[1] in read for line in lines) > 0.8 * len(lines)
    evaluated = [whole_rows(read_set(folder / "heldout" / "tatoeba", read_recipe(
        folder / "recipe.json")), vocabulary, read_recipe(folder / "recipe.json"))
        for folder in folders]
    assert evaluated[0] == evaluated[1][::-1]


@pytest.mark.parametrize("spoil, changes, message", [
    (lambda sets: (sets / "news.de").write_text("Eins.\n"), {},
     "news: 2 source and 1 reference lines"),
    (lambda sets: (sets / "newstest2013.de").unlink(), {},
     "expected newstest2013.en and newstest2013.de, a development set, found no such files"),
    (lambda sets: None, {"held_out_it": "msdocs-*-MT"},
     "held_out_it: expected sentences of three words or more in corpora called msdocs-.-MT"),
])
def test_faults_in_sets_are_found_before_training(tmp_path, corpora, spoil, changes, message):
    shutil.copytree(corpora / "eval", tmp_path / "eval")
    for language in ("en", "de"):
        (tmp_path / f"eval/news.{language}").write_text("One.\nTwo.\n")
    spoil(tmp_path / "eval")
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE | {"level": "char"} | changes))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        prepare(recipe, corpora, tmp_path / "eval", tmp_path / "prepared")
    assert not (tmp_path / "prepared").exists()


@pytest.mark.parametrize("changes, key", [
    ({"start_from": "nosuch"}, "start_from"),
    ({"start_from": "en-de-char", "pieces_from": "nosuch"}, "pieces_from"),
])
def test_a_model_that_is_not_there_is_named_with_its_key(tmp_path, corpora, changes, key):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE | {"level": "char"} | changes))
    with pytest.raises(FileNotFoundError, match=f"{key}: expected a model in .*nosuch"):
        prepare(recipe, corpora, corpora / "eval", tmp_path / "prepared")


def test_a_vocabulary_of_the_other_layout_is_refused(tmp_path, corpora):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(RECIPE))
    prepare(recipe, corpora, corpora / "eval", tmp_path / "post")
    recipe.write_text(json.dumps(RECIPE | {"norm": "pre"}))
    with pytest.raises(ValueError, match="expected <s>, <pad>, </s>, <unk> where layers are pre-n"):
        prepare(recipe, corpora, corpora / "eval", tmp_path / "pre", vocabulary=tmp_path / "post")
