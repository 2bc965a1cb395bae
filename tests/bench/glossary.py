"""What a glossary costs and gives: BLEU, terms kept and time on newstest2014, of shipped models.

    build/venv-test/bin/python tests/bench/glossary.py --eval DIR [--step N] [--output FILE]

Ways to keep a term are compared on the sentences that have terms: nothing done; masked, as
placeholders are; its translation put into the source; its translation put in the place of what came
out for it, which is what the server does. The terms are those of glossary.tsv (English, German,
French), once all of them as they are, once those alone whose translation the reference has. Times
are of the server's processors, as a ratio by turns, so that neighbours do not count.
"""

import argparse
import html
import os
import re
import subprocess
import sys
from pathlib import Path

import hardware
import sacrebleu
from material import ROOT, newstest

sys.path.insert(0, str(ROOT / "tests/http"))
from acre_server import Server  # noqa: E402

AT_ONCE, ROUNDS = 100, 3


def entries(target):
    column = {"de": 1, "fr": 2}[target]
    rows = (Path(__file__).parent / "glossary.tsv").read_text().splitlines()
    return {row.split("\t")[0]: row.split("\t")[column] for row in rows}


def times(term, text):
    """As the server finds it: a sentence may begin with a capital."""
    found = len(re.findall(rf"(?<!\w){re.escape(term)}(?!\w)", text))
    raised = term[0].upper() + term[1:]
    return found + (raised != term and text.startswith(raised)
                    and not text[len(raised):len(raised) + 1].isalnum())


class Model:
    def __init__(self, server, name):
        self.server, self.name, self.target = server, name, name[3:5]

    def translate(self, texts, **fields):
        found = []
        for i in range(0, len(texts), AT_ONCE):
            reply = self.server.post(f"/translate/{self.name}", timeout=600,
                                     json={"q": texts[i:i + AT_ONCE], **fields})
            found += reply.json()["translatedText"]
        return found

    def worked(self, texts, **fields):
        """Seconds of processors."""
        stat = Path(f"/proc/{self.server.process.pid}/stat")

        def now():
            return sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:13]))
        begin = now()
        self.translate(texts, **fields)
        return (now() - begin) / os.sysconf("SC_CLK_TCK")


def wrapped(text, terms, before, after, instead=None):
    """HTML with what is around each term, the longest first, as they are found."""
    pattern = "|".join(re.escape(t) for t in sorted(terms, key=len, reverse=True))
    parts = re.split(rf"(?<!\w)({pattern})(?!\w)", text)
    return "".join(before + html.escape(instead[part] if instead else part, False) + after
                   if i % 2 else html.escape(part, False) for i, part in enumerate(parts))


def unmasked(text, terms):
    return html.unescape(re.sub("<code>(.*?)</code>",
                                lambda m: html.escape(terms[html.unescape(m[1])], False), text))


def kept(cases, found):
    wanted = [(terms[t], source, t, out) for (source, _, terms), out in zip(cases, found)
              for t in terms]
    total = sum(times(t, source) for _, source, t, _ in wanted)
    return 100 * sum(min(times(said, out), times(t, source))
                     for said, source, t, out in wanted) / total, total


def ways(model, cases):
    """Rows of a table: one for each way."""
    sources = [source for source, _, _ in cases]
    references = [[reference for _, reference, _ in cases]]
    masked = model.translate([wrapped(s, t, "<code>", "</code>") for s, _, t in cases],
                             format="html")
    found = {
        "nothing": model.translate(sources),
        "masked": [unmasked(out, terms) for out, (_, _, terms) in zip(masked, cases)],
        "in the source": [html.unescape(out) for out in model.translate(
            [wrapped(s, t, "", "", t) for s, _, t in cases], format="html")],
        "in the translation": [model.translate([s], glossary=t)[0] for s, _, t in cases],
    }
    for way, out in found.items():
        share, total = kept(cases, out)
        yield (f"| {model.name} | {len(cases)}, {total} | {way} | {share:.1f} | "
               f"{sacrebleu.corpus_bleu(out, references).score:.2f} | "
               f"{sacrebleu.corpus_chrf(out, references).score:.2f} |")


def cost(model, sources, reference):
    """A row: the whole set with the glossary as it is, and with one that has none of its words."""
    made = {name: model.server.post("/v2/glossaries", json={
        "name": name, "source_lang": "en", "target_lang": model.target, "entries_format": "tsv",
        "entries": "\n".join(f"{a}\t{b}" for a, b in terms.items())}).json()["glossary_id"]
        for name, terms in (("real", entries(model.target)), ("idle", {"qqqq": "qqqq"}))}
    plain, real = model.translate(sources), model.translate(sources, glossary_id=made["real"])
    same = [model.translate(sources, glossary={}) == plain,
            model.translate(sources, glossary_id=made["idle"]) == plain]
    some = sources[::3]
    ratios = sorted(model.worked(some, glossary_id=made["real"]) / model.worked(some)
                    for _ in range(ROUNDS))
    bleu = [sacrebleu.corpus_bleu(out, [reference]).score for out in (plain, real)]
    changed = sum(a != b for a, b in zip(plain, real))
    return (f"| {model.name} | {len(sources)} | {'yes' if all(same) else 'NO'} | {bleu[0]:.2f} | "
            f"{bleu[1]:.2f} | {changed} | {ratios[ROUNDS // 2]:.3f} | "
            f"{ratios[0]:.3f} to {ratios[-1]:.3f} |")


def cases_of(sources, reference, terms, only_said):
    for source, said in zip(sources, reference):
        found = {t: terms[t] for t in terms if re.search(rf"(?<!\w){re.escape(t)}(?!\w)", source)
                 and (not only_said or re.search(rf"(?<!\w){re.escape(terms[t])}(?!\w)", said))}
        if found:
            yield source, said, found


def report(server, settings):
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                          cwd=ROOT, check=True).stdout.strip()
    yield f"{hardware.in_words()}. Commit {head}; made by `tests/bench/glossary.py " \
          f"{' '.join(sys.argv[1:])}`.\n"
    models = []
    for name in ("en-de-token", "en-fr-token", "en-de-char", "en-fr-char"):
        model = Model(server, name)
        source, reference = (path.read_text().splitlines()[::settings.step]
                             for path in newstest(settings.eval, model.target))
        models.append((model, source, reference))
    for only_said, title in ((False, "All terms of the glossary, as it has them"),
                             (True, "Those alone whose translation the reference has")):
        yield f"\n{title}:\n\n| model | sentences, terms | way | terms kept, % | BLEU | chrF |\n" \
              "|---|---|---|---|---|---|"
        for model, source, reference in models:
            cases = list(cases_of(source, reference, entries(model.target), only_said))
            yield from ways(model, cases)
    yield "\n| model | lines | unchanged without terms | BLEU | with the glossary | " \
          "lines changed | time, ratio | range |\n|---|---|---|---|---|---|---|---|"
    for each in models:
        yield cost(*each)

def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--eval", type=Path, required=True, help="folder with newstest2014")
    parser.add_argument("--step", type=int, default=1, help="take every so many lines")
    parser.add_argument("--output", type=Path, help="file to write, besides standard output")
    settings = parser.parse_args()
    server, lines = Server(ROOT / "models"), []
    for line in report(server, settings):
        print(line, flush=True)
        lines.append(line)
    assert server.stop() == 0
    if settings.output:
        settings.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
