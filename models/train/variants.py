"""Pairs as careless people type them, and with things in them that must come out unchanged.

The corpora are tidy. What a translator meets is not: no capitals or nothing but capitals, no full
stop or five, and numbers, links and signs that it has never seen and should copy. Each function
makes such a pair from a clean one, or returns None where it has nothing to change.
"""

import random
import re
import string

from .corpus import DIGITS, Pair

FINAL_MARKS = ".!?…"
ORDINAL = re.compile(r"\d[a-z]")
WORD = re.compile(r"[a-z]{3,9}")
SIGNS = "😀 😂 😊 😍 👍 🙏 ❤️ 🎉 😢 🔥 :) :-) ;-) → ✓ € §".split()
DOMAINS = "com org net de fr eu io co.uk".split()


def lower_cased(pair, _):
    return Pair(pair.origin, pair.english.lower(), pair.target)


def unpunctuated(pair, _):
    """Both sides without their final mark: a reader who leaves it out expects none back."""
    sides = [side.rstrip(FINAL_MARKS).rstrip() for side in (pair.english, pair.target)]
    return Pair(pair.origin, *sides) if all(sides) else None


def shouted(pair, _):
    return Pair(pair.origin, pair.english.upper(), pair.target.upper())


def emphatic(pair, chance):
    """Both sides with the same final mark several times."""
    mark = pair.english[-1]
    if mark not in "!?." or pair.target[-1] != mark:
        return None
    marks = mark * chance.randint(2, 5)
    return Pair(pair.origin, pair.english[:-1] + marks, pair.target[:-1] + marks)


def renumbered(pair, chance):
    """Other numbers of about as many digits, the same on both sides."""
    numbers = DIGITS.findall(pair.english)
    if not numbers or ORDINAL.search(pair.english):
        return None
    if sorted(numbers) != sorted(DIGITS.findall(pair.target)):
        return None
    others = {number: other_number(number, chance) for number in dict.fromkeys(numbers)}
    if len(set(others.values())) < len(others):
        return None
    sides = [DIGITS.sub(lambda m: others[m.group()], side) for side in (pair.english, pair.target)]
    return Pair(pair.origin, *sides)


def other_number(number, chance):
    """1 stays 1 and 0 stays 0, because the words beside them depend on it."""
    if number in ("0", "1"):
        return number
    digits = max(1, len(number) + chance.choice((-1, 0, 0, 0, 1)))
    lowest = 2 if digits == 1 else 10 ** (digits - 1)
    return str(chance.randrange(lowest, 10**digits))


def with_copied(pair, chance):
    """Both sides with a link, an address, a number or a sign behind or before them."""
    thing = chance.choice((link, address, amount, sign))(pair, chance)
    if chance.random() < 0.2:
        return Pair(pair.origin, f"{thing} {pair.english}", f"{thing} {pair.target}")
    return Pair(pair.origin, f"{pair.english} {thing}", f"{pair.target} {thing}")


def word(pair, chance):
    """A word of the sentence, so that vocabulary and spelling vary with the text."""
    return chance.choice(WORD.findall(pair.english.lower()) or ["acre"])


def letters(chance):
    return "".join(chance.choices(string.ascii_lowercase + string.digits, k=chance.randint(1, 8)))


def link(pair, chance):
    host = f"{chance.choice(('www.', '', ''))}{word(pair, chance)}.{chance.choice(DOMAINS)}"
    path = "".join(f"/{chance.choice((letters(chance), word(pair, chance)))}"
                   for _ in range(chance.randint(0, 2)))
    return chance.choice(("https://", "http://", "")) + host + path


def address(pair, chance):
    name = chance.choice((word(pair, chance), letters(chance)))
    return f"{name}@{word(pair, chance)}.{chance.choice(DOMAINS)}"


def amount(_, chance):
    form = chance.choice(("{}", "{}.{}", "{}:{}", "+{} {}", "{}-{}", "{}/{}", "v{}.{}", "#{}"))
    return form.format(*(chance.randrange(10 ** chance.randint(1, 4)) for _ in range(2)))


def sign(_, chance):
    return chance.choice(SIGNS)


VARIANTS = {f.__name__: f for f in (lower_cased, unpunctuated, shouted, emphatic, renumbered,
                                    with_copied)}


def with_variants(pairs, parts, seed):
    """The pairs, and of each kind the given part of them again, changed."""
    chance = random.Random(seed)
    for pair in pairs:
        yield pair
        for name, part in parts.items():
            changed = VARIANTS[name](pair, chance) if chance.random() < part else None
            if changed:
                yield changed
