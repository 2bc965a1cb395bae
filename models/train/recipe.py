"""The recipe of one model: what it is trained on, how large it is, how it is trained.

A recipe is a JSON file in `recipes/`. Every key is checked when it is read: a misspelt key is
an error, not a default, and so is a value that training could not do with.
"""

from dataclasses import MISSING, dataclass, field, fields
from fnmatch import fnmatch
from pathlib import Path

from .files import read_json
from .rules import check_number, place
from .shape import shape_of

RECIPES = Path(__file__).parent / "recipes"
MODELS = Path(__file__).parents[1]  # models/, where start_from and teacher are

# Of each kind of variant, the part of the pairs that is repeated so.
PARTS = {"lower_cased": 0.04, "unpunctuated": 0.04, "shouted": 0.01, "emphatic": 0.01,
         "repeated": 0.1, "renumbered": 0.2, "with_copied": 0.04, "with_replaced": 0.04}
MORE_PARTS = "alone", "codes", "doubled", "queries"  # absent: as variants.py says

LEVELS = ("token", "char")
NUMBER = (int, float)
# Of the numbers in a recipe, its groups and its phases: type, least and most. Those of `vocabulary`
# depend on the level, those of `heads` on the preset.
BOUNDS = {
    "share": (NUMBER, 0, 1e6),
    "max_length": (int, 2, 1 << 16),
    "batch_tokens": (int, 1, 1 << 30),
    "until": (int, 1, 1 << 30),
    "held_out_sentences": (int, 1, 1 << 20),
    "learning_rate": (NUMBER, 1e-9, 1),
    "warmup_steps": (int, 1, 1 << 30),
    "flat_steps": (int, 1, 1 << 30),
    "hours": (NUMBER, 1e-6, 1e5),
    "cooldown_part": (NUMBER, 0.01, 0.99),
    "report_steps": (int, 1, 1 << 30),
    "evaluation_seconds": (NUMBER, 0, 1e9),
    "evaluation_steps": (int, 1, 1 << 30),
    "patience": (int, 0, 1 << 30),
    "dropout": (NUMBER, 0, 0.99),
    "label_smoothing": (NUMBER, 0, 0.99),
    "ema_decay": (NUMBER, 0, 1),
    "clip_norm": (NUMBER, 1e-9, 1e9),
    "seed": (int, 0, 1 << 31),
    "area_start": (NUMBER, 0.01, 100),
}

VOCABULARY_SIZES = range(300, 1 << 16)  # 256 pieces are bytes; prepared ids have 16 bits


@dataclass(frozen=True)
class Group:
    """Corpora that share one part of the target tokens; `corpora` maps patterns to weights."""

    share: float
    corpora: dict


@dataclass(frozen=True)
class Phase:
    """A stretch of the training: pairs up to max_length ids a side, until step `until`."""

    max_length: int
    batch_tokens: int  # padded target positions of one step
    until: int | None = None


@dataclass(frozen=True)
class Recipe:
    name: str
    source: str
    target: str
    level: str  # token or char
    preset: str | dict  # a name, or the sizes of a Transformer: see shape.py
    mix: dict  # group name -> Group
    phases: tuple  # of Phase, in order
    start_from: str | None = None  # a shipped model, of any pair or level: see inherit.py
    pieces_from: str | None = None  # likewise: embeds the pieces that start_from lacks
    teacher: str | None = None  # a shipped model whose translations are learnt: see distil.py
    distilled: tuple = ()  # patterns of the corpora whose English the teacher translates
    norm: str = "post"  # of a Transformer's layers, or pre: see model.py
    heads: int | None = None  # of an LSTM preset; None: the preset's
    area: str | dict = "eq3"  # or eq9, regular, or a section as in config.json: see shape.py
    area_start: float | None = None  # divides what areas give before they learn: see shape.py
    vocabulary: int = 8000
    exclude: tuple = ("msdocs-MT",)
    limits: dict = field(default_factory=dict)  # pattern -> most pairs of that corpus
    held_out_everyday: str = "tatoeba"
    held_out_it: str = "msdocs-*-HT"
    held_out_sentences: int = 1000
    variants: dict = field(default_factory=lambda: dict(PARTS))  # see variants.py
    learning_rate: float = 1.5e-3  # the highest: after warm-up
    warmup_steps: int = 1000
    flat_steps: int = 8000  # from here on the rate falls with the square root of the step
    hours: float | None = None  # time limit of the run; None: until it is told to cool down
    cooldown_part: float = 0.2  # the last part of a run with a time limit: linear decay to 0
    report_steps: int | None = None  # between reports; None: a minute
    evaluation_seconds: int = 900  # between evaluations
    evaluation_steps: int | None = None  # likewise in steps, whatever time they take
    patience: int = 12  # evaluations without a better score after which a run cools down; 0: never
    dropout: float = 0.1
    label_smoothing: float = 0.1
    ema_decay: float = 0.999
    clip_norm: float = 1.0
    seed: int = 1
    samples: tuple = ()  # sentences translated at every evaluation

    def shape(self):
        return shape_of(self.preset, self.dropout, self.area, self.heads, self.norm,
                        self.area_start)

    @property
    def language(self):
        """The one that is not English."""
        return self.source if self.target == "en" else self.target

    @property
    def longest(self):
        """The most ids a side that a pair may have, end included."""
        return max(phase.max_length for phase in self.phases)

    def group_of(self, origin):
        """(group name, weight inside it) of a corpus: the first pattern that matches it."""
        for name, group in self.mix.items():
            for pattern, weight in group.corpora.items():
                if fnmatch(origin, pattern):
                    return name, weight
        raise ValueError(f"recipe {self.name}: mix: no pattern matches the corpus {origin}")

    def limit_of(self, origin):
        return next((n for pattern, n in self.limits.items() if fnmatch(origin, pattern)), None)

    def uses(self, origin):
        return not any(fnmatch(origin, pattern) for pattern in self.exclude)

    def phase_at(self, step):
        """The index of the phase that step `step` belongs to."""
        for index, phase in enumerate(self.phases):
            if phase.until is None or step < phase.until:
                return index
        return len(self.phases) - 1


def checked(kind, values, where=""):
    """The values of a JSON object, if they can be the fields of the class: none is unknown, none
    missing, each of its type, and numbers are within BOUNDS. Null stands where a field is None."""
    of = f"{where}: " if where else ""
    if not isinstance(values, dict):
        raise ValueError(f"{of}expected an object, found {values!r}")
    known = {f.name: f for f in fields(kind)}
    unknown = values.keys() - known.keys()
    if unknown:
        raise ValueError(f"{of}unknown key {', '.join(sorted(unknown))}")
    missing = [name for name, f in known.items()
               if f.default is f.default_factory is MISSING and name not in values]
    if missing:
        raise ValueError(f"{of}expected {' and '.join(missing)}, found no such key")
    for key in values:
        if values[key] is not None or known[key].default is not None:
            check_value(values, key, known[key].type, where)
    return values


def check_value(values, key, kind, where):
    if key in BOUNDS:
        check_number(values, key, *BOUNDS[key], where)
        return
    kind = list if kind is tuple else kind  # JSON has no tuples
    if not isinstance(values[key], kind):
        named = getattr(kind, "__name__", kind)
        raise ValueError(f"{place(key, where)}: expected {named}, found {values[key]!r}")


def check_parts(values, bounds, where):
    """Numbers under keys that are patterns or names."""
    for key in values:
        check_number(values, key, *bounds, where)


def group_of(values, where):
    group = Group(**checked(Group, values, where))
    check_parts(group.corpora, (NUMBER, 0, 1e6), f"{where}.corpora")
    return group


def parts_of(values):
    known = *PARTS, *MORE_PARTS
    unknown = values.keys() - known
    if unknown:
        raise ValueError(f"variants: unknown {', '.join(sorted(unknown))}; "
                         f"there are {', '.join(known)}")
    check_parts(values, (NUMBER, 0, 1), "variants")
    return PARTS | values


def parsed(values):
    """The recipe of a JSON object, as far as it can be one."""
    values = dict(checked(Recipe, values))
    for key in ("exclude", "samples", "distilled"):
        texts = values.get(key, [])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{key}: expected a list of texts, found {texts!r}")
        if key in values:
            values[key] = tuple(texts)
    values["mix"] = {name: group_of(group, f"mix.{name}") for name, group in values["mix"].items()}
    values["phases"] = tuple(Phase(**checked(Phase, phase, "phases")) for phase in values["phases"])
    values["variants"] = parts_of(values.get("variants", {}))
    return Recipe(**values)


def check_recipe(recipe):
    """What no field tells alone."""
    if [recipe.source, recipe.target].count("en") != 1:
        raise ValueError("expected en as either source or target, "
                         f"found {recipe.source} and {recipe.target}")
    if recipe.level not in LEVELS:
        raise ValueError(f"level: expected {' or '.join(LEVELS)}, found {recipe.level!r}")
    if not any(group.share for group in recipe.mix.values()):
        raise ValueError("mix: expected a group with a share, found none")
    if not recipe.phases:
        raise ValueError("phases: expected one at least, found none")
    check_parts(recipe.limits, (int, 1, 10**9), "limits")
    if recipe.pieces_from and not recipe.start_from:
        raise ValueError("pieces_from: expected start_from, too")
    if recipe.start_from and recipe.area_start is not None:
        raise ValueError("area_start: expected only where all weights begin at random, found "
                         "start_from, too")
    if bool(recipe.teacher) != bool(recipe.distilled):
        raise ValueError("teacher and distilled are given both or not at all")
    if recipe.level == "token" and recipe.vocabulary not in VOCABULARY_SIZES:
        raise ValueError(f"vocabulary: expected {VOCABULARY_SIZES[0]} to {VOCABULARY_SIZES[-1]} "
                         f"pieces, found {recipe.vocabulary}")
    recipe.shape()


def recipe_of(values, where):
    """The recipe of a JSON object; errors say that it is `where`."""
    try:
        recipe = parsed(values)
        check_recipe(recipe)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return recipe


def read_recipe(path):
    return recipe_of(read_json(path), path)


def find_recipe(model):
    """The path of a recipe, given its name or itself a path."""
    path = Path(model) if model.endswith(".json") else RECIPES / f"{model}.json"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in RECIPES.glob("*.json")))
        raise FileNotFoundError(f"{model}: no such recipe; there are {known}")
    return path
