"""Command line of the importers: `python3 -m models.convert SOURCE DIR`."""

import argparse
import os
import signal
import sys
from pathlib import Path

NO_NUMPY = """models.convert needs numpy: apt-get install python3-numpy, or run it with
build/venv-test/bin/python, which `make test` sets up"""

DESCRIPTION = """\
Turns a translation model of another layout into a model directory that Acre opens.

SOURCE is one of
  a Hugging Face directory of MarianMT, M2M100, NLLB or mBART-50: config.json, pytorch_model.bin
    (or its shards), and the tokenizer: vocab.json, source.spm, target.spm, or vocab.json,
    sentencepiece.bpe.model, or sentencepiece.bpe.model, tokenizer.json, or one of these two
  a Marian folder, or the .npz in it: NAME.npz, *vocab.yml (or .json, or vocab*.spm),
    source.spm, target.spm, and, if there is one, decoder.yml"""

EPILOG = """\
DIR is written whole or not at all. A model directory that is there is replaced; anything
else is left alone, with an error. Nothing of SOURCE is run, whatever it holds."""


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="python3 -m models.convert",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--source-lang", metavar="XX",
                        help="language translated from (default: what SOURCE or its name says)")
    parser.add_argument("--target-lang", metavar="XX", help="language translated into, likewise")
    return parser.parse_args(arguments)


def printable(text):
    """File names and fields come from strangers: nothing of them may steer the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def convert(options):
    from .directory import check_target, write_directory
    from .source import read_source, set_languages

    target = Path(os.path.abspath(options.directory))
    check_target(options.source, target)
    model = read_source(options.source)
    set_languages(model, options.source, options.source_lang, options.target_lang)
    write_directory(model, target)
    for note in model.notes:
        print(f"models.convert: note: {printable(note)}", file=sys.stderr)
    types = sorted({tensor.dtype for tensor in model.tensors.values()})
    print(f"models.convert: {options.directory}: {len(model.tensors)} tensors, {' '.join(types)}")


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        import numpy  # noqa: F401
    except ImportError:
        sys.exit(NO_NUMPY)
    from .errors import ConvertError

    try:
        convert(options)
    except ConvertError as error:
        sys.exit(f"models.convert: {printable(str(options.source))}: {printable(str(error))}")
    except OSError as error:
        where = error.filename or options.directory  # writing to a full disk names no file
        sys.exit(f"models.convert: {printable(str(where))}: {error.strerror}")


if __name__ == "__main__":
    # As an exit, so that what is half written is taken away.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main()
