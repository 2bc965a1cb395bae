"""Everything for a pair in one go, for a fast machine that is lent for minutes.

    reverse     a large model into English learns from what people translated
    back        it translates plain text: pairs whose English is a machine's
    teacher     a large model from English learns from both
    distilled   it translates every English sentence that people translated
    token       the small model that is to be shipped learns from all of these
    char        so does one over bytes

A campaign's folder begins with what `pack` made; what a stage made stays there, and the same
command goes on after any interruption, in the middle of a stage too. A plan, `plans/NAME.json`,
says of each stage in its order what it changes in the pack's recipe (`every` holds for all), how
many seconds it trains, and in `shares` how many target ids of machines come to each of people.
"""

import shutil
import signal
from collections import Counter
from pathlib import Path

import numpy as np

from . import checkpoint, corpus
from .build import new_model
from .device import choose_device
from .export import export
from .files import made_whole, read_json, write_json
from .interrupted import Interrupted
from .lock import alone
from .prepared import read_arrays, read_sources
from .recipe import read_recipe, recipe_of
from .rules import check_keys, check_number
from .search import translate_ids
from .sentences import Sentences, as_bytes, sentences_of, text_of
from .sets import LONGEST_TRANSLATION
from .trainer import Trainer
from .vocabulary import ByteVocabulary, open_vocabulary

PLANS = Path(__file__).parent / "plans"
# Stages that make text, and how the names of corpora of it end.
MADE = {"back": corpus.BACK_SUFFIX, "distilled": corpus.DISTILLED_SUFFIX}
EXPORTED_STAGES = ("token", "char")
# Of every stage, what says how long it takes.
STAGES = {"reverse": "seconds", "back": "sentences", "teacher": "seconds",
          "distilled": "sentences", "token": "seconds", "char": "seconds"}
PART_SENTENCES = 65536  # of a translation: what an interruption may cost


def interrupt(*_):
    raise Interrupted


def read_plan(name):
    """A plan, as far as it is not a recipe's keys that stand in it."""
    path = Path(name) if name.endswith(".json") else PLANS / f"{name}.json"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in PLANS.glob("*.json")))
        raise FileNotFoundError(f"--plan {name}: no such plan; there are {known}")
    plan = read_json(path)
    check_keys(plan, ("every", *STAGES), path)
    for stage, values in plan.items():
        length, where = STAGES.get(stage), f"{path}: {stage}"
        if not isinstance(values, dict):
            raise ValueError(f"{where}: expected an object, found {values!r}")
        if length and length not in values:
            raise ValueError(f"{where}: expected {length}, found no such key")
        check_number(values, "seconds", (int, float), 0.01, 1e6, where)
        check_number(values, "sentences", int, 1, 1 << 40, where)
        check_keys(values.get("shares", {}), MADE, f"{where}.shares")
    return plan


def read_sentences(path, name):
    return sentences_of(read_arrays(path, f"{name}_ids", f"{name}_offsets"), name)


def worth_training_on(english, others, vocabulary):
    """Indices of the pairs that a corpus of people would be allowed to have."""
    dropped, kept = Counter(), []
    for i, sides in enumerate(zip(text_of(english, vocabulary), text_of(others, vocabulary))):
        reason = corpus.fault(*map(corpus.tidy, sides))
        if reason:
            dropped[reason] += 1
        else:
            kept.append(i)
    print(f"campaign: {len(kept)} pairs kept, dropped {dict(dropped)}", flush=True)
    return kept


class Campaign:
    """One pair's stages, in `folder`."""

    def __init__(self, folder, plan):
        self.folder, self.pack = Path(folder), Path(folder) / "pack"
        stages = read_plan(plan)
        self.every, self.plan = stages.pop("every", {}), stages
        self.human = read_json(self.pack / "recipe.json")
        self.language = read_recipe(self.pack / "recipe.json").language
        self.pieces = open_vocabulary("token", self.pack)
        for stage in self.plan.keys() - MADE.keys():  # a mistake costs no time on a lent machine
            recipe_of(self.recipe(stage), f"{plan}: {stage}")

    def run(self):
        """Does what is left to do; whether all is done, rather than interrupted."""
        try:
            for stage in self.plan:
                print(f"campaign: {self.folder.name}: {stage}", flush=True)
                signal.signal(signal.SIGTERM, interrupt)
                if stage == "back":
                    self.translate(stage, "reverse", self.language, self.packed("mono"))
                elif stage == "distilled":
                    self.translate(stage, "teacher", "en", self.distinct_english())
                else:
                    self.train(stage)
        except Interrupted:
            return False
        return True

    # ---- Training ----

    def recipe(self, stage):
        """The pack's recipe as the plan changes it."""
        own = self.every | self.plan[stage]
        shares = own.pop("shares", {})
        languages = (self.language, "en") if stage == "reverse" else ("en", self.language)
        made = {name: {"share": shares.get(name, 0), "corpora": {f"campaign{suffix}": 1}}
                for name, suffix in MADE.items()}
        kept = {key: value for key, value in self.human.items()
                if key not in ("teacher", "distilled", "start_from", "pieces_from", "samples",
                               "hours")}
        return kept | {
            "name": f"{'-'.join(languages)}-{stage}", "source": languages[0],
            "target": languages[1], "norm": "pre", "level": "token",
            "mix": made | self.human["mix"], "hours": own.pop("seconds") / 3600,
        } | own

    def train(self, stage):
        run = self.folder / stage
        if (run / "done").exists():
            return
        if not (run / "prepared").exists():
            self.prepare(stage, run / "prepared")
        with alone(run):
            finished = Trainer(run).run()
        if stage in EXPORTED_STAGES and (run / "best.pt").exists():
            export(run, run / "model")
        if not finished:
            raise Interrupted
        (run / "done").touch()

    def prepare(self, stage, folder):
        """What the stage trains on: the pack, and what earlier stages made."""
        sources = read_sources(self.pack)
        sides = {name: [self.packed(name)] for name in ("en", self.language)}
        origins = [read_arrays(self.pack / "train.npz", "origin")["origin"]]
        for made, suffix in MADE.items():
            if (self.folder / made).exists():
                for name, parts in sides.items():
                    parts.append(read_sentences(self.folder / made / "pairs.npz", name))
                count = len(sides["en"][-1])
                origins.append(np.full(count, len(sources["corpora"]), np.uint8))
                sources["corpora"][f"campaign{suffix}"] = {"pairs": count}
        recipe = self.recipe(stage)
        with made_whole(folder) as unfinished:
            self.write_vocabulary(recipe["level"], unfinished)
            arrays = {"origin": np.concatenate(origins)}
            for name, parts in sides.items():
                side = Sentences.join(parts)
                is_char = recipe["level"] == "char"
                arrays |= (as_bytes(side, self.pieces) if is_char else side).arrays(name)
            np.savez(unfinished / "train.npz", **arrays)
            for name in ("heldout", "eval"):
                shutil.copytree(self.pack / name, unfinished / name)
            for name, value in (("recipe.json", recipe), ("sources.json", sources)):
                write_json(unfinished / name, value)

    def write_vocabulary(self, level, folder):
        if level == "char":
            ByteVocabulary.write(folder)
            return
        for name in self.pieces.files:
            shutil.copyfile(self.pack / name, folder / name)

    # ---- Translating ----

    def packed(self, name):
        """Sentences of the pack: `en`, those of the other language, or `mono`."""
        return read_sentences(self.pack / ("mono.npz" if name == "mono" else "train.npz"), name)

    def distinct_english(self):
        english = self.packed("en")
        return english.take({english[i].tobytes(): i for i in range(len(english))}.values())

    def translate(self, stage, by, source, text):
        """Pairs of `text` in the language `source` and its translations by the model `by`."""
        if (self.folder / stage).exists():
            return
        text = text.take(range(min(len(text), self.plan[stage]["sentences"])))
        target = self.language if source == "en" else "en"
        sides = {source: text, target: self.translation(by, text, self.folder / f"{stage}.parts")}
        kept = worth_training_on(sides["en"], sides[self.language], self.pieces)
        with made_whole(self.folder / stage) as unfinished:
            np.savez(unfinished / "pairs.npz", **{
                key: array for name, side in sides.items()
                for key, array in side.take(kept).arrays(name).items()})

    def translation(self, by, text, folder):
        """The translation of `text`, in parts that are kept in `folder`."""
        folder.mkdir(exist_ok=True)
        model, parts = self.trained(by), []
        for start in range(0, len(text), PART_SENTENCES):
            path = folder / f"{start:09}.npz"
            if not path.exists():
                rows = [text[i] for i in range(start, min(len(text), start + PART_SENTENCES))]
                rows = translate_ids(model, self.pieces, rows, LONGEST_TRANSLATION["token"])
                unfinished = path.with_suffix(".part.npz")
                np.savez(unfinished, **Sentences.of(rows).arrays("made"))
                unfinished.rename(path)
            parts.append(read_sentences(path, "made"))
        return Sentences.join(parts)

    def trained(self, stage):
        """The best weights of a stage, as a model."""
        run, (device, _) = self.folder / stage, choose_device()
        model = new_model(read_recipe(run / "prepared" / "recipe.json"), self.pieces)
        model.load_state_dict(checkpoint.load(run / "best.pt")["average"])
        return model.to(device).eval()
