"""Back-translation (Sennrich et al., ACL 2016): text that nobody translated, put into English by a
model, as a corpus of what a model from English should have written.

Hours of work, so it is not a part of `prepare`: what is written stays, and the same command goes
on. Sentences come in the order of their hashes: whatever there is so far is a fair sample. A side
file says which model wrote it: another would not go on as it began.
"""

from pathlib import Path

from . import corpus
from .acre_command import fingerprint, translations
from .files import read_json


def languages_of(model):
    config = read_json(Path(model) / "tokenizer_config.json")
    source, target = config.get("source_lang"), config.get("target_lang")
    if target != "en" or source in (None, "en"):
        raise ValueError(f"{model}: tokenizer_config.json: target_lang: expected a model into en, "
                         f"found {source} to {target}")
    return source


def plain_text(paths):
    """The distinct lines of text files, in the order of their hashes."""
    lines = {corpus.tidy(line) for path in paths for line in corpus.read_lines(path)} - {""}
    return sorted(lines, key=corpus.stable_hash)


def check_writer(made, model):
    """Refuses to go on with what another model wrote; older text does not say which that was."""
    known, own = made.with_suffix(".model"), fingerprint(Path(model))
    written = made.exists() and made.stat().st_size > 0
    if written and known.exists() and known.read_text(encoding="utf-8").strip() != own:
        raise ValueError(f"{made}: expected text by {model}, found that of another model, as "
                         f"{known.name} says; to begin anew, remove it")
    known.write_text(own + "\n", encoding="utf-8")


def back_translate(acre, model, path, out, first=1, most=None, options=()):
    """Writes, or goes on writing, `out`/NAME.back.en-XX.tsv of the text NAME[.XX].txt[.gz].

    Of its sentences, in their order, it takes `most` from the `first` one on, counted from 1.
    `options` are further ones of `acre translate`.
    """
    language = languages_of(model)
    name = path.name.removesuffix(".gz").removesuffix(".txt").removesuffix(f".{language}")
    made = out / f"{name}{corpus.BACK_SUFFIX}.en-{language}.tsv"
    sentences = plain_text([path])
    if not sentences:
        raise ValueError(f"{path}: expected sentences, found none")
    if len(sentences) < first:
        raise ValueError(f"{path}: --first: expected at most {len(sentences)}, as many as there "
                         f"are sentences, found {first}")
    out.mkdir(parents=True, exist_ok=True)
    check_writer(made, model)
    translations(made, sentences[first - 1:][:most], acre, model, *options, who="back",
                 translation_first=True)
