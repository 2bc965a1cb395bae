"""Preparing a run: corpora in, one small folder out that holds all that training needs.

    prepared/
        train.npz               ids of every pair by language, as flat arrays with offsets, and
                                its corpus; either language may be translated into the other
        sources.json            per corpus: pairs and target ids, and what repeated evaluation text;
                            what else was dropped and why
        recipe.json             the recipe, as it was when the data were made
        source.spm … | tokenizer_config.json    the vocabulary
        heldout/NAME.{en,XX}    sentences kept out of training, line-aligned
        eval/NAME.{en,XX}       the given evaluation sets of this pair
"""

import random
import shutil
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from . import corpus, distil, overlap
from .files import made_whole, read_json, write_json
from .lock import alone
from .parent import check_parent, check_pieces, check_there
from .recipe import MODELS, recipe_of
from .sentences import Sentences
from .sets import DEVELOPMENT_SETS, evaluation_sentences, evaluation_sets, read_set
from .variants import with_variants
from .vocabulary import SPECIAL, ByteVocabulary, PieceVocabulary

VOCABULARY_PAIRS = 250_000


def read_corpora(recipe, folder, dropped):
    """{corpus name: clean pairs}, each pair once."""
    by_origin, seen = {}, set()
    for origin, path in corpus.corpus_files(folder, recipe.language).items():
        if not recipe.uses(origin):
            continue
        recipe.group_of(origin)  # a corpus that the mix forgets is an error before the work
        pairs = list(corpus.read_pairs(origin, path, dropped))
        by_origin[origin] = list(corpus.unseen(pairs, seen))
        dropped["in two corpora"] += len(pairs) - len(by_origin[origin])
    return by_origin


def held_out_pairs(recipe, by_origin, evaluation):
    """{name: pairs} of the sets that are kept out of training; none is in a set of `evaluation`."""
    evaluated = evaluation_sentences(evaluation)
    sets = {}
    for name, key in (("tatoeba", "held_out_everyday"), ("it", "held_out_it")):
        pattern = getattr(recipe, key)
        pool = [p for origin, pairs in by_origin.items() if fnmatch(origin, pattern) for p in pairs]
        pool = corpus.without_sentences(pool, evaluated)
        sets[name] = corpus.held_out(pool, recipe.held_out_sentences)
        if not sets[name]:
            raise ValueError(f"recipe {recipe.name}: {key}: expected sentences of three words or "
                             f"more in corpora called {pattern}, found none to hold out")
    return sets


def hold_out(recipe, by_origin, evaluation, folder):
    """Writes the held-out sets."""
    folder.mkdir()
    for name, pairs in held_out_pairs(recipe, by_origin, evaluation).items():
        write_lines(folder / f"{name}.en", [pair.english for pair in pairs])
        write_lines(folder / f"{name}.{recipe.language}", [pair.target for pair in pairs])


def write_lines(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def vocabulary_sentences(by_origin, recipe):
    """Sentences of both sides for learning pieces, everyday language over-represented."""
    everyday, others = [], []
    for origin, pairs in by_origin.items():
        group, _ = recipe.group_of(origin)
        (everyday if group == "everyday" else others).extend(pairs)
    wanted = max(0, VOCABULARY_PAIRS - len(everyday))
    chosen = random.Random(recipe.seed).sample(others, min(len(others), wanted))
    return [side for pair in everyday + chosen for side in (pair.english, pair.target)]


def encode_corpora(by_origin, recipe, vocabulary, longest):
    """Arrays for train.npz and, per corpus, how many pairs and target ids went into them."""
    english, others, origins = [], [], []
    targets = english if recipe.target == "en" else others
    counts = {}
    for index, (origin, pairs) in enumerate(by_origin.items()):
        before = len(origins)
        pairs = corpus.capped(pairs, recipe.limit_of(origin))
        for pair in with_variants(pairs, recipe.variants, recipe.seed):
            ids, other = vocabulary.encode(pair.english), vocabulary.encode(pair.target)
            if 0 < len(ids) < longest and 0 < len(other) < longest:  # the end id is one more
                english.append(np.array(ids, np.uint16))
                others.append(np.array(other, np.uint16))
                origins.append(index)
        counts[origin] = {"pairs": len(origins) - before,
                          "target_ids": sum(map(len, targets[before:]))}
    arrays = (Sentences.of(english).arrays("en")
              | Sentences.of(others).arrays(recipe.language))
    return arrays | {"origin": np.array(origins, np.uint8)}, counts


def make_vocabulary(recipe, by_origin, folder, given=None):
    """A new one, or that of the folder `given`, a run's prepared one."""
    if recipe.level == "char":
        return ByteVocabulary.write(folder)
    if given:
        for name in PieceVocabulary.files:
            shutil.copyfile(Path(given) / name, folder / name)
        return checked_vocabulary(recipe, folder, given)
    sentences = vocabulary_sentences(by_origin, recipe)
    return PieceVocabulary.train(sentences, recipe.vocabulary, folder, recipe.norm)


def checked_vocabulary(recipe, folder, given):
    vocabulary = PieceVocabulary(folder)
    before, after = SPECIAL[recipe.norm]
    names = [vocabulary.names[i] for i in range(vocabulary.size)]
    if names[: len(before)] != [*before] or names[len(names) - len(after) :] != [*after]:
        raise ValueError(f"{given}: vocab.json: expected {', '.join(before + after)} where layers "
                         f"are {recipe.norm}-norm, found another order")
    return vocabulary


def copy_evaluation_sets(eval_folder, language, folder):
    folder.mkdir()
    for pair in evaluation_sets(eval_folder, language).values():
        for path in pair:
            shutil.copyfile(path, folder / path.name)


def check_models(recipe, where, acre):
    """Finds out before hours of reading whether the models that the recipe names will do."""
    if recipe.teacher and not acre:
        raise ValueError(f"{where}: teacher: translating with it needs --acre FILE")
    for key in ("start_from", "pieces_from"):
        if getattr(recipe, key):
            check_there(f"{where}: {key}", MODELS / getattr(recipe, key))
    if recipe.start_from:
        check_parent(recipe.shape(), MODELS / recipe.start_from)
    if recipe.pieces_from:
        check_pieces(MODELS / recipe.pieces_from)


def check_sets(recipe, folder):
    """Likewise of the evaluation sets, of which one chooses the weights that are kept."""
    found = evaluation_sets(folder, recipe.language)
    for english, _ in found.values():
        read_set(english.with_suffix(""), recipe)
    (needed,) = (Path(name).name for name in DEVELOPMENT_SETS if name.startswith("eval/"))
    if needed not in found:
        raise FileNotFoundError(f"{folder}: expected {needed}.en and {needed}.{recipe.language}, a "
                                "development set, found no such files")


def gather(recipe, corpora, eval_folder, folder, acre, options):
    """({corpus name: pairs}, what was dropped) of what is to be learnt; writes to `folder` what is
    held out of it."""
    dropped = Counter()
    by_origin = read_corpora(recipe, corpora, dropped)
    hold_out(recipe, by_origin, eval_folder, folder / "heldout")
    if recipe.teacher:
        by_origin |= distil.distilled_corpora(recipe, corpora, acre, recipe.longest, dropped,
                                              folder.with_name("distilled"), options)
    evaluated = overlap.Evaluated((eval_folder, folder / "heldout"), recipe)
    sizes = {origin: len(pairs) for origin, pairs in by_origin.items()}
    by_origin, repeats = overlap.without_repeats(by_origin, evaluated)
    print(f"prepare: dropped what repeats evaluation text:\n{overlap.table(repeats, sizes)}")
    print(f"prepare: {sum(map(len, by_origin.values()))} pairs kept, dropped {dict(dropped)}")
    return by_origin, {"repeats": repeats, "dropped": dropped}


def write(recipe, by_origin, dropped, folder, vocabulary):
    """Writes what training reads, the pairs as ids of the vocabulary; how many pairs those are."""
    vocabulary = make_vocabulary(recipe, by_origin, folder, vocabulary)
    arrays, counts = encode_corpora(by_origin, recipe, vocabulary, recipe.longest)
    np.savez_compressed(folder / "train.npz", **arrays)
    write_json(folder / "sources.json", {"corpora": counts} | dropped)
    return len(arrays["origin"])


def prepare(recipe_path, corpora, eval_folder, folder, acre=None, vocabulary=None, options=()):
    """Makes the `prepared` folder; it appears under its name only when it is complete.

    `acre` is the command that runs the recipe's teacher, if it has one, and `options` are further
    ones of it; what it wrote stays beside the folder, in `distilled`. `vocabulary` is a folder that
    has one to use again.
    """
    given = read_json(recipe_path)  # the file may change meanwhile
    recipe = recipe_of(given, recipe_path)
    check_models(recipe, recipe_path, acre)
    check_sets(recipe, eval_folder)
    with alone(folder.parent), made_whole(folder) as unfinished:
        by_origin, dropped = gather(recipe, corpora, eval_folder, unfinished, acre, options)
        pairs = write(recipe, by_origin, dropped, unfinished, vocabulary)
        write_json(unfinished / "recipe.json", given)
        copy_evaluation_sets(eval_folder, recipe.language, unfinished / "eval")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"prepare: {folder}: {pairs} pairs, {size / 2**20:.1f} MiB")
