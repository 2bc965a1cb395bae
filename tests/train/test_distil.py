"""Training text that a shipped model translated."""

import json
import subprocess
from collections import Counter

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("torch")

from models.train import corpus, distil, prepare  # noqa: E402
from models.train import card  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.acre_command import translate, translations  # noqa: E402
from models.train.batches import Pairs  # noqa: E402
from models.train.recipe import PARTS, read_recipe  # noqa: E402
from models.train.vocabulary import ByteVocabulary  # noqa: E402

RECIPE = {
    "name": "test", "source": "en", "target": "de", "level": "char", "preset": "tiny",
    "held_out_sentences": 20, "teacher": "teacher", "distilled": ["tatoeba"],
    "mix": {"everyday": {"share": 1, "corpora": {"tatoeba.distilled": 1, "*": 1}}},
    "phases": [{"max_length": 96, "batch_tokens": 400}],
}
TEACHER = """#!/bin/sh
test "$1 $2 ${3##*/}" = "translate --model teacher" && exec sed "s/^/So: /" "$4"
"""


@pytest.fixture
def acre(tmp_path):
    """A translator that begins every sentence with So."""
    path = tmp_path / "acre"
    path.write_text(TEACHER)
    path.chmod(0o755)
    return path


def recipe_file(folder, **changes):
    path = folder / "recipe.json"
    path.write_text(json.dumps(RECIPE | changes))
    return path


def prepared_pairs(folder):
    recipe = read_recipe(folder / "recipe.json")
    pairs, decode = Pairs(folder, recipe), ByteVocabulary(folder).decode
    for index, origin in enumerate(pairs.origin):
        sides = (decode(side(index).tolist()) for side in (pairs.source, pairs.target))
        yield corpus.Pair(pairs.origins[origin], *sides)


def test_a_prepared_run_has_what_the_teacher_wrote(tmp_path, corpora, acre):
    prepare.prepare(recipe_file(tmp_path, variants=dict.fromkeys(PARTS, 0)), corpora,
                    corpora / "eval", tmp_path / "prepared", acre)
    pairs = list(prepared_pairs(tmp_path / "prepared"))
    people = [p.english for p in pairs if p.origin == "tatoeba"]
    taught = [p for p in pairs if p.origin == "tatoeba.distilled"]
    assert sorted(p.english for p in taught) == sorted(people)
    assert all(p.target == "So: " + p.english for p in taught)
    for name in ("heldout/tatoeba.en", "eval/newstest2013.en"):
        held_out = (tmp_path / "prepared" / name).read_text(encoding="utf-8").splitlines()
        assert held_out and not {p.english for p in taught} & set(held_out)


def test_the_teacher_has_the_threads_that_were_asked_for(tmp_path, corpora, acre):
    acre.write_text(TEACHER.replace("exec", 'echo "$5 $6" >"${0%/*}/threads" && exec'))
    assert main(["prepare", str(recipe_file(tmp_path)), "--corpora", str(corpora), "--eval",
                 str(corpora / "eval"), "--run", str(tmp_path), "--acre", str(acre), "--threads",
                 "1"]) == 0
    assert (tmp_path / "threads").read_text() == "--threads 1\n"


def test_a_recipe_that_changes_meanwhile_is_kept_as_it_was(tmp_path, corpora, acre):
    path = recipe_file(tmp_path)
    before = json.loads(path.read_text())
    acre.write_text(TEACHER.replace("exec", f"echo more >>{path} && exec"))
    prepare.prepare(path, corpora, corpora / "eval", tmp_path / "prepared", acre)
    with pytest.raises(ValueError):
        json.loads(path.read_text())
    assert json.loads((tmp_path / "prepared/recipe.json").read_text()) == before


def test_sentences_come_from_every_language_once_and_short(tmp_path):
    (tmp_path / "tatoeba.en-de.tsv").write_text("A dog.\tEin Hund.\nA cat.\tEine Katze.\n")
    (tmp_path / "tatoeba.en-fr.tsv").write_text(
        "A cat.\tUn chat.\nA bird.\tUn oiseau.\nA very long bird.\tUn oiseau très long.\n")
    (tmp_path / "other.en-de.tsv").write_text("A fish.\tEin Fisch.\n")
    recipe = read_recipe(recipe_file(tmp_path))
    found = distil.english_sentences(recipe, tmp_path, longest=10)
    assert found == {"tatoeba": ["A dog.", "A cat.", "A bird."]}


def test_a_token_model_learns_from_long_sentences_up_to_a_limit(tmp_path):
    lines = [f"There are {n} very long birds.\tIl y a {n} oiseaux." for n in range(2, 52)]
    (tmp_path / "tatoeba.en-fr.tsv").write_text("".join(line + "\n" for line in lines))
    recipe = read_recipe(recipe_file(tmp_path, level="token", limits={"tatoeba.distilled": 7}))
    (found,) = distil.english_sentences(recipe, tmp_path, longest=10).values()
    assert len(set(found)) == 7 and set(found) <= {line.split("\t")[0] for line in lines}


def test_faults_of_the_teacher_are_dropped(tmp_path, corpora, acre):
    text = (corpora / "tatoeba.en-de.tsv").read_text() + "FINE\tgut\nNumber 1\tNummer 1\n"
    (tmp_path / "tatoeba.en-de.tsv").write_text(text)
    acre.write_text('#!/bin/sh\nsed "s/FINE/fine/; s/1/2/; s/ a / x /" <"$4"\n')
    recipe, dropped = read_recipe(recipe_file(tmp_path)), Counter()
    distil.distilled_corpora(recipe, tmp_path, acre, 96, dropped, tmp_path / "kept")
    assert dropped["distilled: digits"] == 1 and dropped["distilled: untranslated"] >= 1


@pytest.mark.parametrize("script, error", [
    ("#!/bin/sh\nexit 3\n", subprocess.CalledProcessError),
    ('#!/bin/sh\nhead -n 5 "$4"\n', ValueError),
])
def test_a_teacher_that_fails_ends_the_preparation(tmp_path, corpora, acre, script, error):
    acre.write_text(script)
    with pytest.raises(error):
        distil.distilled_corpora(read_recipe(recipe_file(tmp_path)), corpora, acre, 96,
                                 Counter(), tmp_path / "kept")


def test_an_interrupted_teacher_goes_on(tmp_path, acre):
    path, sentences = tmp_path / "kept.tsv", [f"Sentence {n}." for n in range(9)]
    said = [f"So: {sentence}" for sentence in sentences]
    model = tmp_path / "teacher"

    def ask(asked):
        made = translations(path, asked, acre, model, who="test")
        return [made[sentence] for sentence in asked]

    assert ask(sentences) == said
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])  # within a line
    acre.write_text(TEACHER.replace("So:", "Now:"))
    found = ask(sentences)
    assert found[:4] == said[:4] and found[4:] == [f"Now: {s}" for s in sentences[4:]]
    acre.write_text(TEACHER.replace("So:", "Last:"))
    assert ask(["New.", *sentences[1:]]) == ["Last: New.", *found[1:]]
    assert ask(sentences) == found  # what was made is not thrown away


def test_what_another_teacher_wrote_is_not_gone_on_with(tmp_path, corpora, acre, monkeypatch):
    monkeypatch.setattr(distil, "MODELS", tmp_path)
    (tmp_path / "teacher").mkdir()
    for weights, word in ((b"one", "So: "), (b"two", "Now: ")):
        (tmp_path / "teacher/model.safetensors").write_bytes(weights)
        acre.write_text(TEACHER.replace("So: ", word))
        found = distil.distilled_corpora(read_recipe(recipe_file(tmp_path)), corpora, acre, 96,
                                         Counter(), tmp_path / "kept")
        assert all(pair.target.startswith(word) for pair in found["tatoeba.distilled"])


def test_only_a_newline_ends_a_translation(tmp_path):
    acre = tmp_path / "acre"
    acre.write_text("#!/bin/sh\nprintf 'a\\rb\\n\\r\\nc\\302\\205\\n'\n")
    acre.chmod(0o755)
    assert list(translate(acre, "model", ["1", "2", "3"], who="test")) == ["a\rb", "\r", "c\x85"]
    with pytest.raises(ValueError, match="model: expected 2 translations, found 3"):
        list(translate(acre, "model", ["1", "2"], who="test"))


def test_a_teacher_needs_the_acre_command(tmp_path, corpora):
    with pytest.raises(ValueError, match="recipe.json: teacher: .* needs --acre FILE"):
        prepare.prepare(recipe_file(tmp_path), corpora, corpora / "eval", tmp_path / "prepared")


@pytest.mark.parametrize("changes, message", [
    ({"distilled": []}, "teacher and distilled are given both or not at all"),
    ({"distilled": ["books"]}, "no corpus matches distilled: books"),
])
def test_mistakes_in_recipes_are_errors(tmp_path, corpora, changes, message):
    with pytest.raises(ValueError, match=message):
        distil.english_sentences(read_recipe(recipe_file(tmp_path, **changes)), corpora, 96)


def test_the_card_says_who_translated():
    licences = {"tatoeba": {"text": "Sentences", "licence": "CC BY"}}
    assert card.described("tatoeba", licences, "en-de-token") == ("Sentences", "CC BY")
    assert card.described("tatoeba.distilled", licences, None) == (
        "Sentences: the English, translated by a larger model of this recipe", "CC BY")
    assert card.described("tatoeba.distilled", licences, "en-de-token") == (
        "Sentences: the English, translated by `en-de-token`", "CC BY")
