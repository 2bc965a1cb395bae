"""Untidy variants of clean pairs."""

import re

import pytest

from models.train import variants
from models.train.corpus import DIGITS, Pair, fault
from models.train.recipe import MORE_PARTS, PARTS

CLEAN = Pair("t", "The 3 men met 12 dogs in 1984.", "Die 3 Männer trafen 1984 12 Hunde.")


def made(name, pair=CLEAN, seed=1, **parts):
    chance = variants.Chance(seed)
    vars(chance).update(parts)
    return variants.VARIANTS[name](pair, chance)


@pytest.mark.parametrize("name, english, target", [
    ("lower_cased", "the 3 men met 12 dogs in 1984.", CLEAN.target),
    ("unpunctuated", CLEAN.english[:-1], CLEAN.target[:-1]),
    ("shouted", "THE 3 MEN MET 12 DOGS IN 1984.", "DIE 3 MÄNNER TRAFEN 1984 12 HUNDE."),
])
def test_simple_variants(name, english, target):
    assert made(name) == Pair("t", english, target)


def test_emphasis_is_the_same_on_both_sides():
    changed = made("emphatic", Pair("t", "Stop it!", "Hör auf!"))
    marks = len(changed.english) - len("Stop it")
    assert 2 <= marks <= 5
    assert changed == Pair("t", "Stop it" + "!" * marks, "Hör auf" + "!" * marks)
    assert made("emphatic", Pair("t", "Stop it!", "Hör auf.")) is None


def test_words_are_repeated_alike():
    pair = Pair("t", "Really? I am very tired.", "Wirklich? Ich bin sehr müde.")
    seen = set()
    for seed in range(200):
        changed = made("repeated", pair, seed)
        times = changed.english.lower().count("really"), changed.english.count("very")
        assert times == (changed.target.lower().count("wirklich"), changed.target.count("sehr"))
        assert sorted(times)[0] == 1 and 2 <= sorted(times)[1] <= 5
        seen.add((changed.english, changed.target))
    assert ("Really? I am very very tired.", "Wirklich? Ich bin sehr sehr müde.") in seen
    assert ("Really, really? I am very tired.", "Wirklich, wirklich? Ich bin sehr müde.") in seen
    assert ("really? i am very very tired", "Wirklich? Ich bin sehr sehr müde") in seen


@pytest.mark.parametrize("english, target", [
    ("It is very, very far.", "Es ist sehr weit."), ("Never say never.", "Sag niemals nie."),
    ("No one said no.", "Niemand sagte nein."),
])
def test_words_without_one_translation_are_not_repeated(english, target):
    assert made("repeated", Pair("t", english, target)) is None


def test_numbers_change_alike():
    all_changed = list(filter(None, (made("renumbered", seed=seed) for seed in range(200))))
    assert len(all_changed) > 150
    for changed in all_changed:
        english, target = map(DIGITS.findall, (changed.english, changed.target))
        assert len(set(english)) == 3 and sorted(english) == sorted(target)
        assert (english[1], english[2]) == (target[2], target[1])
        assert DIGITS.sub("#", changed.english) == DIGITS.sub("#", CLEAN.english)


@pytest.mark.parametrize("english, target", [
    ("No number.", "Keine Zahl."), ("It is 3.30.", "Es ist halb 4."), ("The 2nd.", "Am 2."),
])
def test_numbers_that_cannot_be_matched_stay(english, target):
    assert made("renumbered", Pair("t", english, target)) is None


def test_one_stays_one():
    changed = made("renumbered", Pair("t", "1 dog and 0 cats.", "1 Hund und 0 Katzen."))
    assert changed == Pair("t", "1 dog and 0 cats.", "1 Hund und 0 Katzen.")


def test_codes_begin_with_a_zero():
    calls = Pair("t", "Call 0800 555 today.", "Rufe heute 0800 555 an.")
    changed = filter(None, (made("renumbered", calls, seed) for seed in range(50)))
    assert all(re.search(r" 0\d{3} \d", pair.english) for pair in changed)
    changed = filter(None, (made("renumbered", seed=seed) for seed in range(300)))
    assert {DIGITS.findall(pair.english)[2][0] for pair in changed} == set("0123456789")
    copied = (made("with_copied", seed=seed).english for seed in range(300))
    assert any(code[0] == "0" and len(code) > 1
               for english in copied for code in DIGITS.findall(english))


def test_copied_things_stand_on_both_sides_whole():
    for seed in range(300):
        changed = made("with_copied", seed=seed)
        thing = changed.english.replace(CLEAN.english, "").strip()
        assert thing and " " * 2 not in changed.english
        assert changed.target.replace(CLEAN.target, "").strip() == thing
        assert fault(changed.english, changed.target) in (None, "markup")


def test_things_have_what_a_recipe_asks_for():
    copied = " ".join(made("with_copied", seed=seed, queries=1.0, doubled=1.0).english
                      for seed in range(200))
    paths = re.findall(r"[a-z]\.[a-z.]+/(\S+)", copied)
    assert len(paths) > 20 and all("?" in path for path in paths)
    amounts = re.findall(r" [+v#]?(\d{2,4})\b", copied.replace("12 dogs in 1984", ""))
    assert len(amounts) > 20 and all(len(set(digits)) == 1 for digits in amounts)
    changed = (made("renumbered", seed=seed, codes=1.0) for seed in range(50))
    assert all(DIGITS.findall(pair.english)[1][0] == "0" for pair in changed if pair)
    pairs = [Pair("t", f"Take {n} of it.", f"Nimm {n} davon.") for n in range(200, 300)]
    found = list(variants.with_variants(pairs, {"renumbered": 1.0, "codes": 1.0}, seed=1))
    assert all(DIGITS.search(pair.english)[0][0] == "0" for pair in found[1::2])


def test_things_stand_alone():
    found = {made("alone", seed=seed) for seed in range(300)}
    assert all(pair.english == pair.target and pair.english for pair in found)
    assert any(re.fullmatch("[A-Za-z]", pair.english) for pair in found)
    assert any("://" in pair.english for pair in found)


def test_shared_names_are_replaced_alike():
    pair = Pair("t", "Tom saw Mary in Boston with Tom.", "Tom sah Maria in Boston mit Tom.")
    for seed in range(300):
        changed = made("with_replaced", pair, seed)
        thing = changed.english.removeprefix("Tom saw Mary in ").removesuffix(" with Tom.")
        assert thing not in ("", "Boston") and " " not in thing
        assert changed.target == f"Tom sah Maria in {thing} mit Tom."
    assert made("with_replaced", Pair("t", "Anna saw it.", "Sie sah es.")) is None


def test_each_kind_takes_its_part():
    pairs = [Pair("t", f"Never take {n} of Tom.", f"Nimm nie {n} von Tom.") for n in range(2, 4002)]
    for name in variants.VARIANTS:
        count = sum(1 for _ in variants.with_variants(pairs, {name: 0.1}, seed=1)) - len(pairs)
        assert 300 < count < 500, name
    assert list(variants.with_variants(pairs, dict.fromkeys(PARTS, 0), seed=1)) == pairs
    assert set(PARTS) | set(MORE_PARTS) == set(variants.VARIANTS) | set(variants.OF_THINGS)
