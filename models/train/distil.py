"""Sequence-level distillation (Kim and Rush, EMNLP 2016): a shipped model's translations as text.

What a model writes is more regular than what people wrote: one word order, one choice of words.
A model of bytes, which has much to learn from few sentences, learns faster from it. The source
sentences may come from any language pair, since the translations are made here. So a token model
can be taught by itself, with text that nobody translated into its language (He et al., ICLR 2020).
"""

from collections import Counter
from fnmatch import fnmatch

from . import corpus
from .acre_command import fingerprint, translations
from .recipe import MODELS


def english_sentences(recipe, folder, longest):
    """{corpus name: its clean English sentences}, each once, whatever languages they come with.

    As many of a corpus as the recipe's limit of its distilled text. At char level `longest` is the
    most UTF-8 bytes of a sentence: what no phase can use is left out.
    """
    by_origin, seen = {}, set()
    for language in corpus.languages(folder):
        for origin, path in corpus.corpus_files(folder, language).items():
            if not any(fnmatch(origin, pattern) for pattern in recipe.distilled):
                continue
            for pair in corpus.read_pairs(origin, path, Counter()):
                fits = recipe.level == "token" or len(pair.english.encode()) <= longest
                if fits and pair.english not in seen:
                    seen.add(pair.english)
                    by_origin.setdefault(origin, []).append(pair.english)
    missing = [p for p in recipe.distilled if not any(fnmatch(o, p) for o in by_origin)]
    if missing:
        raise ValueError(f"{folder}: no corpus matches distilled: {', '.join(missing)}")
    limits = {origin: recipe.limit_of(origin + corpus.DISTILLED_SUFFIX) for origin in by_origin}
    return {origin: corpus.capped(sentences, limits[origin], text=str)
            for origin, sentences in by_origin.items()}


def distilled_corpora(recipe, folder, acre, longest, dropped, kept, options=()):
    """{name: pairs} of the corpora that the recipe's teacher writes; `dropped` counts faults by
    reason.

    What the teacher wrote stays in the folder `kept`; `options` are further ones of `acre
    translate`.
    """
    by_origin, teacher = {}, MODELS / recipe.teacher
    kept.mkdir(parents=True, exist_ok=True)
    weights = fingerprint(teacher)
    for origin, sentences in english_sentences(recipe, folder, longest).items():
        name = origin + corpus.DISTILLED_SUFFIX
        recipe.group_of(name)  # a corpus that the mix forgets is an error before the work
        by_origin[name] = []
        path = kept / f"{name}.{weights}.tsv"
        made = translations(path, sentences, acre, teacher, *options, who="distil")
        for english in sentences:
            target = made[english]
            reason = corpus.fault(english, target)
            if reason:
                dropped[f"distilled: {reason}"] += 1
            else:
                by_origin[name].append(corpus.Pair(name, english, target))
    return by_origin
