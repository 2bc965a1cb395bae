"""Text that `acre translate` makes. It takes hours: what is written stays, and what is left is made
another time."""

import hashlib
import subprocess
import tempfile

from . import corpus
from .files import whole_lines

PROGRESS_SENTENCES = 20_000


def thread_options(options):
    """What tells `acre translate` how many threads a command was given."""
    return ("--threads", options.threads) if options.threads else ()


def translate(acre, model, sentences, *options, who):
    """What the model in the folder `model` writes for each sentence, one by one as they come.

    `options` are further ones of `acre translate`; `who` begins the lines that say how far it is.
    Only "\\n" ends a line: a model of bytes may write "\\r", and what else Python ends one at.
    """
    number = 0
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
        text.writelines(sentence + "\n" for sentence in sentences)
        text.flush()
        command = [str(word) for word in
                   (acre, "translate", "--model", model, text.name, *options)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for number, line in enumerate(process.stdout, 1):
                yield line.decode().removesuffix("\n")
                if number % PROGRESS_SENTENCES == 0:
                    print(f"{who}: {number} of {len(sentences)} sentences", flush=True)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
    if number != len(sentences):
        raise ValueError(f"{model}: expected {len(sentences)} translations, found {number}")


def translations(path, sentences, acre, model, *options, who, translation_first=False):
    """{sentence: what the model writes for it}, at least of these. They stand in the file `path`, a
    pair a line, sentence first unless otherwise asked; what it lacks is put there as it comes."""
    step = -1 if translation_first else 1
    done = dict(line.split("\t")[::step] for line in whole_lines(path))
    left = [sentence for sentence in sentences if sentence not in done]
    print(f"{who}: {len(left)} of {len(sentences)} sentences are left for {path}", flush=True)
    made = translate(acre, model, left, *options, who=who) if left else ()
    with open(path, "a", encoding="utf-8") as file:
        for sentence, translation in zip(left, made, strict=True):
            done[sentence] = corpus.tidy(translation)
            file.write("\t".join((sentence, done[sentence])[::step]) + "\n")
    return done


def fingerprint(model):
    """Of a model's weights: what another one wrote is not gone on with."""
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(model.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
