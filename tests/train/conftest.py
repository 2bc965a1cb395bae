"""The training recipe's tests; they need PyTorch (models/train/requirements.txt), else skip."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

ENGLISH = (
    "a the one my his old red big small new dog cat man house river garden bread letter sees "
    "takes finds reads likes wants keeps sells today now often here there again"
).split()


def made_up_pairs(count):
    """English sentences of made-up grammar and a target that a small model can learn."""
    import random

    chance = random.Random(7)
    pairs = {}
    while len(pairs) < count:
        words = [chance.choice(ENGLISH) for _ in range(chance.randint(3, 9))]
        english = " ".join(words).capitalize() + "."
        pairs[english] = " ".join(word[::-1] for word in reversed(words)).capitalize() + "."
    return list(pairs.items())


@pytest.fixture(scope="session")
def corpora(tmp_path_factory):
    """A folder with two corpora and, in eval/, one evaluation set."""
    folder = tmp_path_factory.mktemp("corpora")
    pairs = made_up_pairs(1300)
    chunks = {"tatoeba": pairs[:800], "msdocs-made-up-HT": pairs[800:1200]}
    for name, lines in chunks.items():
        text = "".join(f"{english}\t{target}\n" for english, target in lines)
        (folder / f"{name}.en-de.tsv").write_text(text, encoding="utf-8")
    (folder / "eval").mkdir()
    dev = pairs[1200:]
    (folder / "eval" / "newstest2013.en").write_text("".join(e + "\n" for e, _ in dev))
    (folder / "eval" / "newstest2013.de").write_text("".join(t + "\n" for _, t in dev))
    return folder
