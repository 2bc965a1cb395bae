"""Scoring a run in PyTorch, on the held-out and evaluation sets, with sacreBLEU.

What a model scores in Acre, on any machine, is `make eval`'s business (../evaluate.py).
"""

from . import checkpoint
from .build import new_model
from .device import choose_device
from .files import write_json
from .search import translate
from .sets import LONGEST_TRANSLATION, bleu, chrf, read_set, whole_rows
from .shape import source_multiple
from .vocabulary import open_vocabulary


def evaluation_stems(prepared, recipe):
    """Paths without language suffix of every set of the prepared folder."""
    suffix = f".{recipe.source}"
    paths = [*prepared.glob(f"heldout/*{suffix}"), *prepared.glob(f"eval/*{suffix}")]
    return sorted(path.with_name(path.name.removesuffix(suffix)) for path in paths)


def greedy_search(weights, recipe, vocabulary):
    """A translator that runs a model of these weights by greedy search in PyTorch."""
    device, _ = choose_device()
    model = new_model(recipe, vocabulary).to(device).eval()
    model.load_state_dict(weights)
    longest = LONGEST_TRANSLATION[recipe.level]
    return lambda sentences: translate(model, vocabulary, sentences, longest)


def evaluate(folder, recipe):
    """Scores the best weights on every set, prints the scores and writes them, with the step of
    these weights, to scores.json in the run.

    Sentences that do not fill whole rows of a grid are left out: the model cannot read them.
    """
    vocabulary = open_vocabulary(recipe.level, folder / "prepared")
    best = checkpoint.load(folder / "best.pt", vocabulary)
    translator, scores = greedy_search(best["average"], recipe, vocabulary), {}
    multiple = source_multiple(recipe.shape())
    if multiple > 1:
        print(f"evaluate: only sentences of a multiple of {multiple} ids, end included", flush=True)
    for stem in evaluation_stems(folder / "prepared", recipe):
        sources, references = whole_rows(read_set(stem, recipe), vocabulary, recipe)
        hypotheses = translator(sources)
        if len(hypotheses) != len(references):
            raise ValueError(f"{stem}: expected {len(references)} translations, "
                             f"found {len(hypotheses)}")
        scores[stem.name] = {
            "sentences": len(sources),
            "bleu": round(bleu(hypotheses, references), 1),
            "chrf": round(chrf(hypotheses, references), 1),
        }
        print(f"{stem.name}: BLEU {scores[stem.name]['bleu']}, chrF {scores[stem.name]['chrf']}",
              flush=True)
    write_json(folder / "scores.json", {"step": best["step"], "sets": scores})
