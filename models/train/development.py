"""What the development sets say of a run: which weights it keeps, and whether it gets better.

Scored are averaged weights, by greedy search, on sentences that no run learns. RUN/best.pt has the
weights of the best evaluation there ever was.
"""

from pathlib import Path

from . import checkpoint
from .search import translate
from .sets import (
    DEVELOPMENT_SENTENCES,
    DEVELOPMENT_SETS,
    LONGEST_TRANSLATION,
    bleu,
    fingerprint,
    read_set,
    whole_rows,
)


def total(evaluation):
    """What evaluations are compared by."""
    return sum(evaluation["bleu"].values()) if evaluation else float("-inf")


class Development:
    """The sets of a run, what its evaluations found, and which of them was best.

    Where the source is a grid, only sentences and samples that fill whole rows are translated.
    """

    def __init__(self, folder, recipe, vocabulary):
        self.vocabulary, self.path = vocabulary, folder / "best.pt"
        self.longest = LONGEST_TRANSLATION[recipe.level]
        sets = {name: read_set(folder / "prepared" / name, recipe) for name in DEVELOPMENT_SETS}
        self.fingerprint = fingerprint(*(side for sides in sets.values() for side in sides))
        self.sets = {
            Path(name).name: [side[:DEVELOPMENT_SENTENCES]
                              for side in whole_rows(sides, vocabulary, recipe)]
            for name, sides in sets.items()
        }
        (self.samples,) = whole_rows([recipe.samples], vocabulary, recipe)
        # Two evaluations, which differ once a cool-down is undone. Patience counts from the best of
        # the steps that the run still has; best.pt has the best there ever was.
        self.best = self.kept = None
        self.waited = 0  # evaluations since `best`

    def resume(self, state):
        """Takes what a checkpoint says, unless its run had other sets: scores on those say nothing
        of these. Older checkpoints do not say which they mean."""
        if state.get("development", self.fingerprint) == self.fingerprint:
            self.best = state["best"]
            self.waited = state.get("waited", 0)  # absent in checkpoints before early stops
        else:
            print("train: the development sets have changed; what was best before is forgotten",
                  flush=True)
            self.best, self.waited = None, 0
        self.kept = self.kept_evaluation()

    def kept_evaluation(self):
        """That of best.pt, or None without one on these sets. It may be of a cool-down that was
        undone, of which the checkpoint knows nothing."""
        if not self.path.exists():
            return None
        best = checkpoint.load(self.path)
        if best.get("development", self.fingerprint) != self.fingerprint:
            return None
        return {key: best[key] for key in ("step", "tokens", "bleu")}

    def state(self):
        """What a checkpoint has to say for `resume`."""
        return {"best": self.best, "waited": self.waited, "development": self.fingerprint}

    def scores(self, model):
        """BLEU of each set; the model must be in evaluation mode."""
        return {name: round(bleu(self.translations(model, sources), references), 2)
                for name, (sources, references) in self.sets.items()}

    def translations(self, model, sentences):
        return translate(model, self.vocabulary, sentences, self.longest)

    def keep(self, found, state):
        """Counts an evaluation, {step, tokens, bleu}, of what `state` has, {average, seconds}, and
        writes best.pt if it is the best so far."""
        self.waited += 1
        if total(found) >= total(self.best):
            self.waited, self.best = 0, found
        if total(found) >= total(self.kept):
            self.kept = found
            whose = {"vocabulary": self.vocabulary.fingerprint, "development": self.fingerprint}
            checkpoint.save_atomically(state | whose | found, self.path)
