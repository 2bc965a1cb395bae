"""Scores with bootstrap confidence intervals (Koehn 2004): of means over seeds, of differences.

The resamples are those of sacreBLEU, but each is used for every system and seed, so that means of
scores and differences between systems have intervals as well. What the intervals cover is the
choice of sentences; how far one seed is from another is seen in their scores.
"""

import numpy as np
from sacrebleu.significance import estimate_ci

RESAMPLES = 1000
SEED = 12345  # sacreBLEU's


def resamples(size):
    """How often each of `size` sentences is in each resample; row 0 has every sentence once."""
    drawn = np.random.default_rng(SEED).choice(size, size=(RESAMPLES, size), replace=True)
    counts = [np.bincount(row, minlength=size) for row in drawn]
    return np.array([np.ones(size), *counts])


def scores(metric, hypotheses, references, counts):
    """The score of the set and of each resample; `metric` is sacreBLEU's BLEU() or CHRF()."""
    statistics = np.array(metric._extract_corpus_statistics(hypotheses, [references]), float)
    return np.array([metric._compute_score_from_stats(list(totals)).score
                     for totals in counts @ statistics])


def interval(values):
    """The score of the set and half the width of its 95 % interval; `values` are as above."""
    return {"score": float(values[0]), "ci": float(estimate_ci(values[1:])[1])}
