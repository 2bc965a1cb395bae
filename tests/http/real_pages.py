#!/usr/bin/env python3
"""Real pages through the shipped model, as `make html-test` does, and what must hold of them.

    tests/http/real_pages.py [--pages 500] [--out FILE]

Pages come from Debian's documentation packages, evenly from each; large ones give a piece, cut
anywhere. Of each: it parses without new errors, it has the same tags in number and nesting, no
block lost its text, code is as it was, and nothing is escaped twice. Writes a table.
"""

import argparse
import random
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import html5lib

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/http"), str(ROOT / "tests/bench")]

from acre_server import Server  # noqa: E402
from hardware import in_words  # noqa: E402
from test_http_html import Tags, nesting  # noqa: E402

PACKAGES = ["debian-policy", "developers-reference", "git-doc", "sqlite3-doc", "apache2-doc",
            "postgresql-doc-15", "debian-faq"]
CHECKS = ["parses", "tags", "nesting", "text", "escapes"]
PIECE_CHARS = 4000
TWICE = re.compile(r"&(amp|lt|gt|quot|nbsp|#\d+|#x[0-9a-f]+);", re.IGNORECASE)


def pages_of(package):
    listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True, check=False)
    return sorted(path for path in listed.stdout.split("\n")
                  if re.search(r"(?<!\.\w\w)\.html$|\.en\.html$|\.html\.en$", path) and
                  Path(path).is_file())


def choose(n_pages):
    """[(package, path)], as many of each package as it has, up to its share."""
    left = {package: pages_of(package) for package in PACKAGES}
    chosen, rng = [], random.Random(1)
    for package in sorted(left, key=lambda name: len(left[name])):
        share = (n_pages - len(chosen)) // len(left)
        found = left.pop(package)
        rng.shuffle(found)
        chosen += [(package, path) for path in found[:share]]
    return chosen


def read(path):
    text = Path(path).read_text(encoding="utf-8", errors="replace").replace("\0", "")
    begin = random.Random(path).randrange(max(1, len(text) - PIECE_CHARS))
    return text if len(text) <= PIECE_CHARS else text[begin:begin + PIECE_CHARS]


def parse_errors(text):
    parser = html5lib.HTMLParser()
    parser.parse(text)
    return Counter(code for _, code, _ in parser.errors if "doctype" not in code)  # of pieces


def escaped_twice(text):
    """References that are still there once references are read, in text and attributes."""
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    return Counter(TWICE.findall("".join(tree.itertext())))


def check(text, found):
    before, after = nesting(text), nesting(found)
    return {"parses": not parse_errors(found) - parse_errors(text),
            "tags": Tags(text).found == Tags(found).found,
            "nesting": before[0] == after[0],
            "text": before[1:] == after[1:],
            "escapes": not escaped_twice(found) - escaped_twice(text)}


def one(server, package, path):
    text = read(path)
    reply = server.post(json={"q": text, "source": "en", "target": "de", "format": "html",
                              "beam_size": 1}, timeout=600)
    if reply.status_code != 200:
        return package, path, len(text), 0, {name: False for name in CHECKS}
    return package, path, len(text), sum(Tags(text).found.values()), \
        check(text, reply.json()["translatedText"])


def table(results, seconds):
    lines = ["# HTML at scale", "", f"{in_words()}; `make html-test`, {seconds:.0f} s on a machine "
             "with other work. `en-de-token`, greedy; of longer pages 4,000 characters.", "",
             "| package | pages | kB | tags | " + " | ".join(CHECKS) + " |",
             "|---|" + "---:|" * (3 + len(CHECKS))]
    for package in [*PACKAGES, "all"]:
        rows = [row for row in results if package in (row[0], "all")]
        if rows:
            lines.append(f"| {package} | {len(rows)} | {sum(r[2] for r in rows) / 1000:.0f} | "
                         f"{sum(r[3] for r in rows)} | " +
                         " | ".join(str(sum(r[4][c] for r in rows)) for c in CHECKS) + " |")
    lines += ["", "Columns of checks count the pages that pass: no new parse error (html5lib); the",
              "same tags with their attributes, and comments (html.parser); the same elements in",
              "the same; no block without text that had some, code and preformatted text as it",
              "was; nothing escaped twice."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/http/results/html.md")
    arguments = parser.parse_args()
    chosen = choose(arguments.pages)
    server = Server(ROOT / "models", request_timeout_ms=600000)
    begin = time.monotonic()
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda each: one(server, *each), chosen))
    finally:
        server.stop()
    arguments.out.write_text(table(results, time.monotonic() - begin))
    print(arguments.out.read_text())
    failed = [(row[1], [name for name in CHECKS if not row[4][name]]) for row in results
              if not all(row[4].values())]
    for path, names in failed:
        print(f"{path}: {', '.join(names)}")
    sys.exit(1 if failed or len(results) < arguments.pages else 0)


if __name__ == "__main__":
    main()
