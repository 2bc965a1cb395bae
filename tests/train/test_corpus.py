"""Cleaning and splitting of the corpora."""

import gzip
from collections import Counter

import pytest

from models.train import corpus
from models.train.corpus import Pair


@pytest.mark.parametrize("english, target, reason", [
    ("Where is the station?", "Wo ist der Bahnhof?", None),
    ("At 10:30 we had 1,000 guests.", "Um 10.30 Uhr hatten wir 1 000 Gäste.", None),
    ("", "Leer.", "empty"),
    ("Call 112 now.", "Rufen Sie 110 an.", "digits"),
    ("Yes.", "Ja, das habe ich ihm gestern schon gesagt.", "length ratio"),
    ("Microsoft Teams", "microsoft teams", "untranslated"),
    ("12 + 3", "3 + 12", "no letters"),
    ("A <b>bold</b> word", "Ein <b>fettes</b> Wort", "markup"),
    ("A bell \u0007 here", "Eine Glocke hier", "control character"),
    ("word " * 150, "Wort " * 150, "too long"),
])
def test_faults(english, target, reason):
    assert corpus.fault(english, target) == reason


def test_normalised_ignores_case_and_punctuation():
    assert corpus.normalised("  Hello,  World! ") == corpus.normalised("hello world")
    assert corpus.normalised("don't") != corpus.normalised("do")


def test_reading_cleans_and_counts(tmp_path):
    lines = ["Good morning.\tGuten Morgen.", "Good morning.\tGuten Morgen.", "Call 1.\tRuf 2 an."]
    lines += [f"Hello.\t{greeting}." for greeting in ("Hallo", "Servus", "Tag", "Moin", "Hi")]
    path = tmp_path / "a.en-de.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    dropped = Counter()
    pairs = list(corpus.read_pairs("a", path, dropped))
    assert len(pairs) == 1 + corpus.MOST_TARGETS_PER_SOURCE
    assert dropped == {"duplicate": 1, "digits": 1, "too many targets": 1}


def test_text_is_composed(tmp_path):
    path = tmp_path / "a.en-de.tsv"
    path.write_text("The cafe\u0301  here\tDas Cafe\u0301 hier\n", encoding="utf-8")
    (pair,) = corpus.read_pairs("a", path, Counter())
    assert pair == Pair("a", "The café here", "Das Café hier")


def test_a_line_without_a_tab_is_an_error(tmp_path):
    path = tmp_path / "a.en-de.tsv"
    path.write_text("fine\tgut\nno tab\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a.en-de.tsv:2: expected 2 columns, found 1"):
        list(corpus.read_pairs("a", path, Counter()))


@pytest.mark.parametrize("name, damage", [
    ("a.en-de.tsv", lambda whole: gzip.decompress(whole).decode().encode("latin-1")),
    ("a.en-de.tsv.gz", lambda whole: whole[:-20]),
    ("a.en-de.tsv.gz", lambda whole: whole[:30] + bytes(9) + whole[39:]),
    ("a.en-de.tsv.gz", gzip.decompress),
])
def test_a_damaged_file_is_named(tmp_path, name, damage):
    lines = "".join(f"The {n}th bridge is high.\tDie {n}. Brücke ist hoch.\n" for n in range(99))
    (tmp_path / name).write_bytes(damage(gzip.compress(lines.encode())))
    with pytest.raises(ValueError, match=f"^{tmp_path / name}: "):
        list(corpus.read_columns(tmp_path / name))


def test_multi30k_is_never_read(tmp_path):
    (tmp_path / "multi30k.en-de.tsv").write_text("A dog.\tEin Hund.\n")
    with pytest.raises(FileNotFoundError):
        corpus.corpus_files(tmp_path, "de")


@pytest.mark.parametrize("second", ["a/talk.en-de.tsv.gz", "b/talk.en-de.tsv"])
def test_two_corpora_of_one_name_are_an_error(tmp_path, second):
    for path in ("a/talk.en-de.tsv", second, "b/talk.en-fr.tsv"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("A dog.\tEin Hund.\n")
    with pytest.raises(ValueError) as error:
        corpus.corpus_files([tmp_path / "a", tmp_path / "b"], "de")
    for path in ("a/talk.en-de.tsv", second):
        assert f"{tmp_path / path}" in str(error.value)


def test_a_folder_may_be_given_twice(tmp_path):
    (tmp_path / "talk.en-de.tsv").write_text("A dog.\tEin Hund.\n")
    assert set(corpus.corpus_files([tmp_path, f"{tmp_path}/."], "de")) == {"talk"}


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "talk.en-de.tsv").write_text("A dog.\tEin Hund.\n")
    for find in (lambda f: corpus.corpus_files(f, "de"), corpus.languages):
        with pytest.raises(FileNotFoundError, match="/bakc: no such folder of corpora"):
            find([tmp_path, tmp_path / "bakc"])


def test_held_out_sets_do_not_depend_on_order_or_company():
    pairs = [Pair("t", f"Sentence number {i} here.", f"Satz Nummer {i} hier.") for i in range(500)]
    chosen = corpus.held_out(pairs, 50)
    assert chosen == corpus.held_out(pairs[::-1], 50)
    kept = [p for p in chosen if p in corpus.held_out(pairs[:450], 50)]
    assert len(kept) >= 40
    rest = corpus.without_sentences(pairs, {corpus.normalised(p.english) for p in chosen})
    assert len(rest) == 450 and not set(rest) & set(chosen)


def test_held_out_has_each_english_sentence_once():
    pairs = [Pair("t", "Come here now.", "Komm her."), Pair("t", "come here, now!", "Komm jetzt.")]
    assert len(corpus.held_out(pairs, 10)) == 1
