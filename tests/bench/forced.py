"""Terms of a glossary forced in the search, beside what the server does with them.

    PYTHONPATH=build/venv-test/lib/python3.11/site-packages build/venv-train/bin/python \\
        tests/bench/forced.py --eval DIR [--step N] [--output FILE]

Lexically constrained beam search with dynamic beam allocation (Post and Vilar, 2018, as in their
Sockeye), in PyTorch over the shipped models: the engine has none. Both compute in float32. Without
terms this is the engine's search (engine/search/rules.h): how many lines come out the same is in
the report. A term is tokenised as a word of its own; what would go on with its last word may not
follow. Cases are those of glossary.py, and those of tests/http/test_glossary_terms.py that are text
alone. Cost is in steps of hypotheses, and in seconds of the server's processors for a beam as wide.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import glossary
import hardware
import sacrebleu
import torch
from glossary import Model, cases_of, entries, kept, times
from material import ROOT, newstest
from safetensors.torch import load_file

sys.path.insert(0, str(ROOT))
from acre_server import Server  # noqa: E402
from models.train.batches import padded  # noqa: E402
from models.train.lstm import Lstm  # noqa: E402
from models.train.shape import shape_of  # noqa: E402
from models.train.vocabulary import open_vocabulary  # noqa: E402

from test_glossary_terms import GLOSSARIES, cases  # noqa: E402

BEAMS = (4, 10)


# ---- The model --------------------------------------------------------------------------------


class Shipped:
    """A model of models/, one sentence and a few hypotheses at a time."""

    def __init__(self, name):
        folder = ROOT / "models" / name
        config = json.loads((folder / "config.json").read_text())
        self.most = json.loads((folder / "generation_config.json").read_text())["max_length"] - 1
        self.level = name.rsplit("-", 1)[1]
        self.vocabulary = open_vocabulary(self.level, folder)
        self.end, self.pad = self.vocabulary.end, self.vocabulary.pad
        shape = shape_of(f"lstm-{config['d_model']}", 0.0, config["area"])
        model = Lstm(shape, self.vocabulary.size, self.pad, self.end).eval()
        weights = load_file(folder / "model.safetensors")
        model.load_state_dict({name: x.float() for name, x in weights.items()})
        self.model, self.goes_on = model, self.continuations()

    def continuations(self):
        """Which tokens go on with the word before them."""
        if self.level == "char":
            texts = [chr(i - 2) if i > 1 else " " for i in range(self.vocabulary.size)]
            goes_on = [x.isalnum() or ord(x) > 127 for x in texts]
        else:
            texts = [self.vocabulary.names[i] for i in range(self.vocabulary.size)]
            goes_on = [x[0].isalnum() or x.startswith("<0x") for x in texts]
        return torch.tensor(goes_on)

    def term(self, text):
        return self.vocabulary.encode(" " + text if self.level == "char" else text)

    def begin(self, text):
        source = padded([self.vocabulary.encode(text)], self.end, self.pad)
        return self.model.begin(*self.model.encode(source)), source.shape[1]

    def step(self, tokens, seen, parents):
        """(log probabilities [n, V], what is seen) of hypotheses that continue `parents`."""
        steps, states, attended = seen
        seen = steps, [(h[parents], c[parents]) for h, c in states], attended[parents]
        x, seen = self.model.step(tokens[:, None], seen)
        logits = self.model.logits(x)[:, 0]
        logits[:, self.pad] = -torch.inf
        return logits.log_softmax(-1), seen


# ---- The search -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """Which terms a hypothesis has, and how far it is into another."""

    terms: tuple
    done: frozenset = frozenset()
    current: int = -1
    n: int = 0

    @property
    def met(self):
        return sum(len(self.terms[i]) for i in self.done) + self.n

    @property
    def is_whole(self):
        return len(self.done) == len(self.terms)

    def wanted(self):
        """The tokens that bring it further."""
        found = {self.terms[self.current][self.n]} if self.n else set()
        return found | {x[0] for i, x in enumerate(self.terms)
                        if i not in self.done and i != self.current}

    def after(self, token):
        current, n = self.current, self.n
        if not n or self.terms[current][n] != token:  # what had been begun is given up
            n = 0
            current = next((i for i, x in enumerate(self.terms)
                            if i not in self.done and x[0] == token), -1)
        if current < 0:
            return Progress(self.terms, self.done)
        if n + 1 == len(self.terms[current]):
            return Progress(self.terms, self.done | {current})
        return Progress(self.terms, self.done, current, n + 1)


def candidates(scores, hypotheses, beam, end):
    """The best tokens of all, the best of each hypothesis, and those that terms want."""
    found = {divmod(i, scores.shape[1])
             for i in scores.flatten().topk(min(2 * beam, scores.numel())).indices.tolist()}
    if hypotheses[0][2].terms:
        found |= set(enumerate(scores.argmax(1).tolist()))
        found |= {(b, t) for b, (_, _, progress) in enumerate(hypotheses)
                  for t in progress.wanted()}
    values = [(scores[b, t].item(), b, t) for b, t in found]
    values = [(s, b, t, hypotheses[b][2].after(t) if t != end else hypotheses[b][2])
              for s, b, t in values if s > -1e30]
    return sorted(values, key=lambda x: (-x[0], x[1], x[2]))


def allocate(ranked, beam, n_wanted):
    """The hypotheses of the next step: as many of each bank, what a bank lacks to the others."""
    banks = [[] for _ in range(n_wanted + 1)]
    for each in ranked:
        banks[each[3].met].append(each)
    share, rest = divmod(beam, len(banks))
    sizes = [share] * len(banks)
    sizes[-1] += rest
    spare = sum(max(0, size - len(bank)) for size, bank in zip(sizes, banks))
    sizes = [min(size, len(bank)) for size, bank in zip(sizes, banks)]
    for i in reversed(range(len(banks))):  # those that have most first
        more = min(spare, len(banks[i]) - sizes[i])
        sizes[i], spare = sizes[i] + more, spare - more
    return sorted((x for bank, size in zip(banks, sizes) for x in bank[:size]),
                  key=lambda x: (-x[0], x[1], x[2]))


@torch.inference_mode()
def search(shipped, text, terms, beam):
    """(translation, steps of hypotheses) with all of `terms`, a list of token lists."""
    seen, length = shipped.begin(text)
    first = Progress(tuple(map(tuple, terms)))
    n_wanted = sum(map(len, terms))
    live, results, cost = [((), 0.0, first)], [], 0
    tokens, parents = torch.tensor([shipped.model.start]), torch.tensor([0])
    most = min(shipped.most, 4 * length + 50 + n_wanted)
    for t in range(1, most + 1):
        logs, seen = shipped.step(tokens, seen, parents)
        cost += len(live)
        for b, (ids, _, progress) in enumerate(live):
            if not progress.is_whole:
                logs[b, shipped.end] = -torch.inf
            if ids and progress.terms and progress.n == 0 and is_after_term(live[b]):
                logs[b, shipped.goes_on] = -torch.inf
        scores = torch.tensor([score for _, score, _ in live])[:, None] + logs
        ranked = candidates(scores, live, beam, shipped.end)
        for i, (score, b, token, _) in enumerate(ranked):
            if token == shipped.end and (terms or i < beam):
                results.append((score / t, live[b][0]))
        results = sorted(results, key=lambda x: -x[0])[:beam]
        on = [x for x in ranked if x[2] != shipped.end]
        chosen = allocate(on, beam, n_wanted) if terms else on[:beam]
        if not chosen:
            break
        live = [((*live[b][0], token), score, progress) for score, b, token, progress in chosen]
        parents = torch.tensor([b for _, b, _, _ in chosen])
        tokens = torch.tensor([token for _, _, token, _ in chosen])
        if is_over(results, live, t, beam):
            break
    else:
        results += [(score / (most + 1), ids) for ids, score, progress in live
                    if progress.is_whole]
    if not results:  # of those that have no end, the one that has most
        results = [max((x[2].met, x[0]) for x in live)]
    best = max(results, key=lambda x: x[0])[1]
    return shipped.vocabulary.decode(best).strip(), cost


def is_over(results, live, t, beam):
    """The engine's rule. With terms it would go on as long as one that lacks a term scores better
    by going on without end: only those count that have all, and the best of them."""
    if not live[0][2].terms:
        return len(results) == beam and live[0][1] / t <= results[-1][0]
    whole = [score for _, score, progress in live if progress.is_whole]
    return bool(results) and (not whole or max(whole) / t <= results[0][0])


def is_after_term(hypothesis):
    """Whether a term has just ended."""
    ids, _, progress = hypothesis
    return any(ids[-len(progress.terms[i]):] == progress.terms[i] for i in progress.done)


# ---- The report -------------------------------------------------------------------------------


def wanted(shipped, source, terms):
    """Token lists, one for each time that a term is in the source, the longest term first."""
    found, rest = [], source
    for term in sorted(terms, key=len, reverse=True):
        found += [shipped.term(terms[term])] * times(term, rest)
        rest = rest.replace(term, " ")
    return found


def too_often(cases, found):
    """Share of the sentences that say a term more often than the source has it."""
    return 100 * sum(any(times(said, out) > times(term, source)
                         + sum(times(other, source) for other in terms
                               if other != term and terms[other] == said)
                         for term, said in terms.items())
                     for (source, _, terms), out in zip(cases, found)) / len(cases)


def ways(model, shipped, cases):
    """Yields (way, translations, steps of hypotheses a sentence, sentences a second)."""
    sources = [source for source, _, _ in cases]
    yield "the server: nothing", model.translate(sources), None, None
    yield "the server: in the translation", [model.translate([s], glossary=t)[0]
                                             for s, _, t in cases], None, None
    for beam, is_forced in ((4, False), *((beam, True) for beam in BEAMS)):
        begin = time.process_time()
        found = [search(shipped, s, wanted(shipped, s, t) if is_forced else [], beam)
                 for s, _, t in cases]
        yield (f"forced, beam {beam}" if is_forced else "prototype: nothing, beam 4",
               [out for out, _ in found], sum(cost for _, cost in found) / len(cases),
               len(cases) / (time.process_time() - begin))


def rows(model, shipped, cases, examples):
    references = [[reference for _, reference, _ in cases]]
    outputs = {}
    for way, out, cost, speed in ways(model, shipped, cases):
        outputs[way] = out
        share, total = kept(cases, out)
        scores = ["", ""] if cases[0][1] is None else [
            f"{metric(out, references).score:.2f}"
            for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf)]
        yield (f"| {model.name} | {len(cases)}, {total} | {way} | {share:.1f} | "
               f"{too_often(cases, out):.1f} | {' | '.join(scores)} | "
               f"{f'{cost:.0f}' if cost else ''} | {f'{speed:.1f}' if speed else ''} |")
    same = sum(a == b for a, b in zip(outputs["the server: nothing"],
                                      outputs["prototype: nothing, beam 4"]))
    yield f"| {model.name} | | the same lines without terms: {same} of {len(cases)} | | | | | | |"
    for i in range(0, len(cases), max(1, len(cases) // examples)):
        print(cases[i][0], cases[i][2], *(f"{w}: {o[i]}" for w, o in outputs.items()),
              sep="\n    ", file=sys.stderr)


def report(server, settings):
    yield hardware.in_words() + ".\n"
    head = "| model | sentences, terms | way | terms kept, % | said too often, % | BLEU | chrF | " \
           "steps | a second |\n|---|---|---|---|---|---|---|---|---|"
    loaded = {name: (Model(server, name), Shipped(name)) for name in settings.models.split(",")}
    for title in ("As it is", "Those the reference has", "The tests' cases"):
        yield f"\n{title}:\n\n{head}"
        for name, (model, shipped) in loaded.items():
            target = name[3:5]
            if title == "The tests' cases":
                terms = GLOSSARIES[target]
                every = [(text, None, {x: terms[x] for x in said})
                         for text, said in cases(list(terms))
                         if not set("<{%🙂") & set(text) and "station" not in text]
            else:
                lines = (path.read_text().splitlines()[::settings.step]
                         for path in newstest(settings.eval, target))
                every = list(cases_of(*lines, entries(target), title != "As it is"))
            yield from rows(model, shipped, every[::4] if "char" in name else every,
                            settings.examples)
    yield "\n| model | beam | time against beam 4 |\n|---|---|---|"
    for name, (model, _) in loaded.items():
        source = newstest(settings.eval, name[3:5])[0].read_text().splitlines()[::12]
        for beam in BEAMS[1:]:
            ratios = sorted(model.worked(source, beam_size=beam)
                            / model.worked(source, beam_size=BEAMS[0])
                            for _ in range(glossary.ROUNDS))
            yield f"| {name} | {beam} | {ratios[1]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--eval", type=Path, required=True, help="folder with newstest2014")
    parser.add_argument("--step", type=int, default=6, help="take every so many lines")
    parser.add_argument("--models", default="en-de-token,en-fr-token")
    parser.add_argument("--examples", type=int, default=5, help="to print, of each table")
    parser.add_argument("--output", type=Path, help="file to write, besides standard output")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    server, lines = Server(ROOT / "models", compute_type="f32", max_beam_size=max(BEAMS)), []
    for line in report(server, settings):
        print(line, flush=True)
        lines.append(line)
    assert server.stop() == 0
    if settings.output:
        settings.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
