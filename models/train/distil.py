"""Sequence-level distillation (Kim and Rush, EMNLP 2016): a shipped model's translations as text.

What a model writes is more regular than what people wrote: one word order, one choice of words.
A model of bytes, which has much to learn from few sentences, learns faster from it. The source
sentences may come from any language pair, since the translations are made here. So a token model
can be taught by itself, with text that nobody translated into its language (He et al., ICLR 2020).
"""

import hashlib
import subprocess
import tempfile
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

from . import corpus
from .recipe import SHIPPED

SUFFIX = ".distilled"  # a distilled corpus is called after the corpus of its source sentences
PROGRESS_SENTENCES = 20_000


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
    return {origin: corpus.capped(sentences, recipe.limit_of(origin + SUFFIX), text=str)
            for origin, sentences in by_origin.items()}


def translate(acre, model, sentences, *options):
    """What the model in the folder `model` writes for each sentence, one by one as they come.

    `options` are further ones of `acre translate`.
    """
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
        text.writelines(sentence + "\n" for sentence in sentences)
        text.flush()
        command = [str(word) for word in
                   (acre, "translate", "--model", model, text.name, *options)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
            for number, line in enumerate(process.stdout, 1):
                yield line.removesuffix("\n")
                if number % PROGRESS_SENTENCES == 0:
                    print(f"distil: {number} of {len(sentences)} sentences", flush=True)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)


def lines_done(path):
    """How many lines a file has; one that was cut off is taken away."""
    if not path.exists():
        return 0
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    with open(path, "r+b") as file:
        file.truncate(whole)
    return data.count(b"\n")


def columns(path):
    return [line.rstrip("\n").split("\t") for line in corpus.read_lines(path)]


def kept_translations(path, sentences, acre, model):
    """What `model` writes for each sentence. It stands in the file `path` beside the sentence:
    whoever was interrupted goes on there."""
    if lines_done(path):
        done = [english for english, _ in columns(path)]
        if done != sentences[: len(done)]:
            path.unlink()  # of another text
    left = sentences[lines_done(path) :]
    with open(path, "a", encoding="utf-8") as file:
        for english, target in zip(left, translate(acre, model, left), strict=True):
            file.write(f"{english}\t{corpus.tidy(target)}\n")
    return [target for _, target in columns(path)]


def fingerprint(model):
    """Of a model's weights: what another one wrote is not gone on with."""
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(model.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def distilled_corpora(recipe, folder, acre, longest, dropped, kept):
    """{corpus name + SUFFIX: pairs} by the recipe's teacher; `dropped` counts faults by reason.

    What the teacher wrote stays in the folder `kept`.
    """
    by_origin, teacher = {}, SHIPPED / recipe.teacher
    kept.mkdir(parents=True, exist_ok=True)
    weights = fingerprint(teacher)
    for origin, sentences in english_sentences(recipe, folder, longest).items():
        print(f"distil: {len(sentences)} sentences of {origin} with {recipe.teacher}", flush=True)
        name = origin + SUFFIX
        recipe.group_of(name)  # a corpus that the mix forgets is an error before the work
        by_origin[name] = []
        path = kept / f"{name}.{weights}.tsv"
        for english, target in zip(sentences, kept_translations(path, sentences, acre, teacher)):
            reason = corpus.fault(english, target)
            if reason:
                dropped[f"distilled: {reason}"] += 1
            else:
                by_origin[name].append(corpus.Pair(name, english, target))
    return by_origin
