"""Augmentation: pairs as careless people type them, and with things in them that must come out
unchanged.

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
NAME = re.compile(r"\b[A-Z][a-z]{2,}\b")
# Words that people say several times, and what they are in German or French.
STRESSED = [(re.compile(rf"\b{english}\b", re.I), re.compile(rf"\b({targets})\b", re.I))
            for english, targets in (
                ("really", "wirklich|vraiment"), ("very", "sehr|très"), ("much", "viel|beaucoup"),
                ("never", "nie|niemals|jamais"), ("always", "immer|toujours"),
                ("again", "wieder|encore"), ("long", "lange|longtemps"),
                ("no", "nein|non"), ("yes", "ja|oui"), ("please", "bitte"))]
SIGNS = "😀 😂 😊 😍 👍 🙏 ❤️ 🎉 😢 🔥 :) :-) ;-) → ✓ € §".split()
# Blocks of emoji and signs in Unicode that are nearly full.
PICTURES = [*range(0x1F300, 0x1F650), *range(0x1F680, 0x1F6D0), *range(0x1F90C, 0x1FA00),
            *range(0x2600, 0x2700)]
SKIN_TONES = [chr(c) for c in range(0x1F3FB, 0x1F400)]
DOMAINS = "com org net de fr eu io co.uk".split()
FILES = "txt pdf html png zip csv".split()


class Chance(random.Random):
    """Random numbers, and what part of the things that are made up has what models of bytes easily
    get wrong."""

    codes = 0.03  # of new numbers: begin with a zero
    # Where these two are 0, no number is drawn for them.
    doubled = 0.0  # of the digits of codes and amounts behind the first: are the one before again
    queries = 0.0  # of the paths of links: end in a query; of the others a fifth does


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


def repeated(pair, chance):
    """A word that both sides have once, said equally often on both: mostly three times, and now and
    then as hastily as such things are typed."""
    between, more = chance.choice((" ", ", ")), chance.choice((1, 2, 2, 2, 3, 4))
    sides = pair.english, pair.target
    for patterns in chance.sample(STRESSED, len(STRESSED)):
        if all(len(said.findall(side)) == 1 for said, side in zip(patterns, sides)):
            said_again = Pair(pair.origin, *(
                said.sub(lambda m: m.group() + more * (between + m.group().lower()), side)
                for said, side in zip(patterns, sides)))
            hasty = chance.random() < 0.25
            return lower_cased(unpunctuated(said_again, chance), chance) if hasty else said_again
    return None


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


def digits_of(n, chance):
    digits = ""
    for _ in range(n):
        again = digits and chance.doubled and chance.random() < chance.doubled
        digits += digits[-1] if again else chance.choices(string.digits)[0]
    return digits


def other_number(number, chance):
    """1 stays 1 and 0 stays 0, because the words beside them depend on it. What begins with a zero
    is a code and not a number of things: another code; long numbers sometimes become one."""
    if number in ("0", "1"):
        return number
    if len(number) > 1 and (number[0] == "0" or chance.random() < chance.codes):
        return "0" + digits_of(len(number) - 1, chance)
    digits = max(1, len(number) + chance.choice((-1, 0, 0, 0, 1)))
    lowest = 2 if digits == 1 else 10 ** (digits - 1)
    return str(chance.randrange(lowest, 10**digits))


def with_copied(pair, chance):
    """Both sides with a link, an address, a number or a sign behind or before them."""
    thing = chance.choice((link, address, amount, sign))(pair, chance)
    if chance.random() < 0.2:
        return Pair(pair.origin, f"{thing} {pair.english}", f"{thing} {pair.target}")
    return Pair(pair.origin, f"{pair.english} {thing}", f"{pair.target} {thing}")


def with_replaced(pair, chance):
    """A name that both sides share, once each, as a link, an address or a sign."""
    sides = [NAME.findall(side) for side in (pair.english, pair.target)]
    shared = [name for name in sides[0] if sides[0].count(name) == sides[1].count(name) == 1]
    if not shared:
        return None
    name = re.compile(rf"\b{chance.choice(shared)}\b")
    thing = chance.choice((link, link, address, sign))(pair, chance)
    return Pair(pair.origin, *(name.sub(lambda _: thing, side)
                               for side in (pair.english, pair.target)))


def alone(pair, chance):
    """A letter, a link, an address, a number or a sign, and nothing else."""
    thing = chance.choice((letter, link, address, amount, sign))(pair, chance)
    return Pair(pair.origin, thing, thing)


def word(pair, chance):
    """A word of the sentence, so that vocabulary and spelling vary with the text."""
    return chance.choice(WORD.findall(pair.english.lower()) or ["acre"])


def letter(_, chance):
    return chance.choice(string.ascii_letters)


def letters(chance):
    return "".join(chance.choices(string.ascii_lowercase + string.digits, k=chance.randint(1, 8)))


def link(pair, chance):
    host = f"{chance.choice(('www.', '', ''))}{word(pair, chance)}.{chance.choice(DOMAINS)}"
    path = "".join(f"/{chance.choice((letters(chance), word(pair, chance)))}"
                   for _ in range(chance.randint(0, 2)))
    end = chance.choice(("", "", "", f".{chance.choice(FILES)}", query(pair, chance)))
    if path and chance.queries and chance.random() < chance.queries:
        end = query(pair, chance)
    if path:
        path += end
    return chance.choice(("https://", "http://", "ftp://", "", "")) + host + path


def query(pair, chance):
    return "?" + "&".join(f"{word(pair, chance)}={letters(chance)}"
                          for _ in range(chance.randint(1, 2)))


def address(pair, chance):
    parts = (chance.choice((word(pair, chance), letters(chance)))
             for _ in range(chance.randint(1, 2)))
    host = f"{word(pair, chance)}.{chance.choice(DOMAINS)}"
    return f"{chance.choice('.._-+').join(parts)}@{chance.choice(('', '', 'mail.'))}{host}"


def amount(_, chance):
    form = chance.choice(("{}", "{}.{}", "{}:{}", "+{} {}", "{}-{}", "{}/{}", "v{}.{}", "#{}",
                          "{} {} {}"))
    return form.format(*(digits_of(chance.randint(1, 4), chance) for _ in range(3)))


def sign(_, chance):
    if chance.random() < 0.4:
        return chance.choice(SIGNS) * chance.choice((1, 1, 1, 2, 3))
    tone = chance.choice(SKIN_TONES) if chance.random() < 0.1 else ""
    return (chr(chance.choice(PICTURES)) + tone) * chance.choice((1, 1, 1, 2, 3))


VARIANTS = {f.__name__: f for f in (lower_cased, unpunctuated, shouted, emphatic, repeated,
                                    renumbered, with_copied, with_replaced, alone)}
OF_THINGS = "codes", "doubled", "queries"  # parts of Chance


def with_variants(pairs, parts, seed):
    """The pairs, and of each kind the given part of them again, changed."""
    chance = Chance(seed)
    for name in parts.keys() & OF_THINGS:
        setattr(chance, name, parts[name])
    kinds = {name: part for name, part in parts.items() if name in VARIANTS}
    for pair in pairs:
        yield pair
        for name, part in kinds.items():
            changed = VARIANTS[name](pair, chance) if chance.random() < part else None
            if changed:
                yield changed
