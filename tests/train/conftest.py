"""The training recipe's tests; they need PyTorch (models/train/requirements.txt), else skip.

The fixtures import what needs PyTorch themselves, as pytest reads this file where there is none.
"""

import json
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


@pytest.fixture
def small_and_quick(monkeypatch):
    """An untrained model never ends a sentence: keep evaluations short. Compiling takes longer
    than all of a test's steps."""
    import torch

    from models.train import development, trainer

    monkeypatch.setattr(trainer.area, "fuse", lambda: None)
    monkeypatch.setattr(development, "DEVELOPMENT_SENTENCES", 4)
    monkeypatch.setattr(development, "LONGEST_TRANSLATION", {"token": 20, "char": 40})
    torch.set_num_threads(1)


@pytest.fixture(scope="module", params=["token-post", "token-pre", "char-post", "char-pre"])
def run(request, tmp_path_factory, corpora):
    """The folder of a run that is prepared: both levels, both norms, Eq. 3 and Eq. 9."""
    from models.train.prepare import prepare
    from small import RECIPE

    folder = tmp_path_factory.mktemp(request.param)
    recipe = folder / "recipe.json"
    level, norm = request.param.split("-")
    area = {"token": "eq3", "char": "eq9"}[level]
    recipe.write_text(json.dumps(RECIPE | {"level": level, "norm": norm, "area": area}))
    prepare(recipe, corpora, corpora / "eval", folder / "prepared")
    return folder


@pytest.fixture
def recipe(run):
    from models.train.recipe import read_recipe

    return read_recipe(run / "prepared" / "recipe.json")


@pytest.fixture
def pairs(run, recipe):
    from models.train.batches import Pairs

    return Pairs(run / "prepared", recipe)
