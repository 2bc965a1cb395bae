#!/usr/bin/env python3
"""Computes tests/golden/models/*/golden.json: what `acre translate --tokens --json` must answer.

Translations come from transformers' `generate` in float64, on MarianMT itself or, where
config.json has an `area` section, on the definition of area attention (reference.py). Scores are
computed once more, by teacher forcing the result, and must agree with those of `generate`. A
sentence is kept only if small noise on the log-probabilities changes none of its translations, and
no top_k of areas is as good as a tie, so that no case hangs on rounding.

    make_golden.py [MODEL]...
"""

import json
import math
import sys
from pathlib import Path

import sentencepiece
import torch
import transformers
from transformers import LogitsProcessor, LogitsProcessorList

import reference
from definition import Area

MODELS = Path(__file__).resolve().parent / "models"
NOISE = 1e-4
AREA_TIE = 1e-5  # relative difference of two areas' weights
SENTENCES = 25
POOL = """\
Hi.
Hello!
No, thanks.
Where is the bus stop?
I have an old car, and it works.
What?!
Wait... what -- really?
"Quoted," he said; 'twice'.
Tom (42) paid $3.50 (10% off) on 12/31/1999.
Ça va? Naïve café, über-señor, Zoë.
Grüße aus Köln: 5 °C, 20 €, ½ Maß.
日本語 and русский in one line.
Emoji 😀 too.
http://example.org/a?b=c&d=e#f
A
.
Pickpockets often work in groups.
There were two left.
She sells sea shells by the sea shore.
Why do you want to learn German, of all languages?
If it rains tomorrow, we will stay at home and read the books that you gave us.
The committee's decision wasn't unanimous: 7 to 4, with 2 abstentions!
I don't know what you mean by that.
He said that he would come back as soon as he had finished his work.
You should have told me earlier.
It was raining.
My brother and my sister live in the same house near the sea.
Let's go, before it is too late.
Nobody knew where the old man had come from, or why he had come at all.
One two three four five six seven eight nine ten.
We saw them last night.
Do you speak English?
That is the most beautiful thing I have ever seen in my whole life.
yes yes yes yes yes yes yes
Time flies.
Open the window, please; it's hot in here.
""".splitlines()
RUNS = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "num_hypotheses": 4},
    "penalty-0.6": {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 0.6},
    "penalty-1.4": {"beam_size": 4, "num_hypotheses": 4, "length_penalty": 1.4},
    "beam-3-of-6": {"beam_size": 6, "num_hypotheses": 3, "length_penalty": 0.0},
    "greedy-30": {"beam_size": 1, "min_length": 30, "max_length": 30},
    "beam-30": {"beam_size": 4, "num_hypotheses": 2, "min_length": 30, "max_length": 30},
    "at-most-5": {"beam_size": 4, "num_hypotheses": 4, "max_length": 5},
    "at-least-8": {"beam_size": 4, "num_hypotheses": 2, "min_length": 8},
}
FEW = ("greedy", "beam", "greedy-30", "beam-30", "at-most-5")


class Noise(LogitsProcessor):
    """Adds what float32 might add, and more."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, input_ids, scores):
        return scores + NOISE * torch.randn(scores.shape, generator=self.generator)


class Pieces:
    """SentencePiece vocabularies as MarianTokenizer uses them."""

    def __init__(self, directory):
        self.spm = sentencepiece.SentencePieceProcessor(model_file=str(directory / "source.spm"))
        self.source = json.loads((directory / "vocab.json").read_text())
        target = directory / "target_vocab.json"
        names = json.loads(target.read_text()) if target.exists() else self.source
        self.target = {i: name for name, i in names.items()}

    def encode(self, text):
        pieces = self.spm.encode(text, out_type=str)
        return pieces, [self.source.get(piece, self.source["<unk>"]) for piece in pieces]

    def names(self, ids):
        return [self.target[i] for i in ids]


class Bytes:
    """ByteTokenizer: a token is a printable ASCII character, or <0xHH>."""

    def encode(self, text):
        ids = [2 + byte for byte in text.encode()]
        return self.names(ids), ids

    def names(self, ids):
        return [chr(i - 2) if 0x20 < i - 2 < 0x7F else f"<0x{i - 2:02X}>" for i in ids]


def vocabulary(directory):
    config = json.loads((directory / "tokenizer_config.json").read_text())
    return Bytes() if config["tokenizer_class"] == "ByteTokenizer" else Pieces(directory)


def arguments(options):
    """Options of ours as arguments of `generate` (see tests/parity/README.md, section 3)."""
    given = {"num_beams": options["beam_size"], "do_sample": False}
    given["num_return_sequences"] = options.get("num_hypotheses", 1)
    if "length_penalty" in options:
        given["length_penalty"] = options["length_penalty"]
    if "min_length" in options:
        given["min_length"] = options["min_length"] + 1
    if "max_length" in options:
        given["max_length"] = options["max_length"] + 2
    return given


def cut(sequence, end):
    """The tokens of a sequence: without start token, end token and padding."""
    tokens = sequence[1:]
    return tokens[: tokens.index(end)] if end in tokens else tokens


def log_probs(model, source, target):
    """Log-probability of every target token, and the whole distributions [T, V]; no masking."""
    config = model.config
    with torch.no_grad():
        logits = model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([[config.decoder_start_token_id, *target[:-1]]]),
        ).logits[0]
    distributions = logits.log_softmax(-1)
    return distributions[range(len(target)), target], distributions


def score(model, source, tokens, options):
    """S by the rules of tests/parity/README.md, section 2, from one teacher-forced pass."""
    config, generation = model.config, model.generation_config
    end = config.eos_token_id
    _, steps = log_probs(model, source, [*tokens, end])
    steps[:, [token for [token] in generation.bad_words_ids]] = -math.inf
    steps[: options.get("min_length", 0), end] = -math.inf
    if generation.forced_bos_token_id is not None:
        steps[0] = -math.inf
        steps[0, generation.forced_bos_token_id] = 0
    if generation.renormalize_logits:
        steps = steps.log_softmax(-1)
    total = steps[range(len(tokens)), tokens].sum()
    limit = options.get("max_length", generation.max_length - 2)
    return float(total if len(tokens) == limit else total + steps[len(tokens), end])


def translate(model, source, options, noise=None):
    """[(tokens, N)], best first; N is None for greedy search."""
    with torch.no_grad():
        result = model.generate(
            input_ids=torch.tensor([source]),
            attention_mask=torch.ones(1, len(source), dtype=torch.long),
            logits_processor=LogitsProcessorList([noise] if noise else []),
            return_dict_in_generate=True,
            output_scores=True,
            **arguments(options),
        )
    tokens = [cut(row, model.config.eos_token_id) for row in result.sequences.tolist()]
    scores = getattr(result, "sequences_scores", None)
    return list(zip(tokens, scores.tolist() if scores is not None else [None] * len(tokens)))


def hypotheses(model, source, options):
    """[(tokens, S, N)], or None if noise might change anything."""
    found = translate(model, source, options)
    for seed in (1, 2):
        again = translate(model, source, options, Noise(seed))
        if [tokens for tokens, _ in again] != [tokens for tokens, _ in found]:
            return None
    penalty = options.get("length_penalty", 1.0)
    results = []
    Area.margin = 1.0
    for tokens, reported in found:
        total = score(model, source, tokens, options)
        normalized = total / (len(tokens) + 1) ** penalty
        if reported is not None and abs(normalized - reported) > 1e-4:
            raise SystemExit(f"{normalized} computed, {reported} reported: {options}")
        results.append((tokens, total, normalized))
    return results if Area.margin > AREA_TIE else None


def golden_sentence(model, vocab, text, runs):
    """Everything for one sentence, or None if a run hangs on a near tie."""
    names, ids = vocab.encode(text)
    source = [*ids, model.config.eos_token_id]
    sentence = {"text": text, "source": " ".join(names), "source_ids": source, "runs": {}}
    for name, options in runs.items():
        found = hypotheses(model, source, options)
        if found is None:
            return None
        sentence["runs"][name] = [
            [" ".join(vocab.names(tokens)), round(total, 6), round(normalized, 6)]
            for tokens, total, normalized in found
        ]
        if name == "greedy-30":
            forced = [*found[0][0][: 2 + len(source)], model.config.eos_token_id]
            values = log_probs(model, source, forced)[0].tolist()
            sentence["teacher_forced"] = {"target_ids": forced,
                                          "log_probs": [round(x, 6) for x in values]}
    return sentence


def make(directory):
    model, vocab = reference.load(directory), vocabulary(directory)
    full = directory.name in ("tiny-token", "tiny-area")
    runs = {name: options for name, options in RUNS.items() if full or name in FEW}
    wanted = SENTENCES if full else 15
    kept = []
    for text in POOL:
        sentence = golden_sentence(model, vocab, text, runs)
        kept += [sentence] if sentence else []
        if len(kept) == wanted:
            break
    golden = {
        "computed_by": f"transformers {transformers.__version__}, torch float64",
        "runs": runs,
        "sentences": kept,
    }
    text = layout(golden)
    (directory / "golden.json").write_text(text, encoding="utf-8")
    report(directory.name, kept, text)


def layout(golden):
    """JSON with one run and one sentence to a line."""
    def one(value):
        return json.dumps(value, ensure_ascii=False)

    runs = ",\n".join(f"  {one(name)}: {one(options)}" for name, options in golden["runs"].items())
    sentences = ",\n".join(f"  {one(sentence)}" for sentence in golden["sentences"])
    return (f'{{\n "computed_by": {one(golden["computed_by"])},\n "runs": {{\n{runs}\n }},\n'
            f' "sentences": [\n{sentences}\n ]\n}}\n')


def report(name, kept, text):
    lengths = [len(s["runs"]["beam"][0][0].split()) for s in kept]
    greedy = sum(s["runs"]["beam"][0][0] == s["runs"]["greedy"][0][0] for s in kept)
    scores = [s["runs"]["beam"][0][2] for s in kept]
    print(f"{name}: {len(kept)} sentences, {len(text)} characters, beam = greedy in {greedy},"
          f" N {min(scores):.2f} to {max(scores):.2f}, lengths {sorted(lengths)}", flush=True)


def main():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()  # it does not know the areas' parameters
    names = sys.argv[1:] or sorted(path.name for path in MODELS.iterdir() if path.is_dir())
    for name in names:
        make(MODELS / name)


if __name__ == "__main__":
    main()
