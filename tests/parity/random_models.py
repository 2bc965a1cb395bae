#!/usr/bin/env python3
"""Compares `acre translate` with transformers on random models of random shapes.

    random_models.py [--models N] [--sentences N] [--seed N] [--acre FILE] [--keep DIR]

For each model: 30 forced tokens, whose scores must be those of teacher forcing within 1e-3; then
greedy search and a beam of 4, whose translations must be those of `generate` in at least 97 % of
the sentences (float32 against float32: near ties may fall either way). Of six models two are
MarianMT, two M2M100 and two mBART, whose first token is forced; every second model has areas of
random widths and kinds and is computed by the definition (tests/golden/reference.py). Kinds that
jump where float32 rounds are left to the golden models: keys with deviations, top_k. Prints a
table; exit status 1 if a model misses a bound. Needs PyTorch and transformers (`make parity`).
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
import torch
from transformers import GenerationConfig, M2M100Config, MarianConfig, MBartConfig
from transformers.utils import logging

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import make_golden  # noqa: E402
import reference  # noqa: E402

SCORE_BOUND = 1e-3
SHARE_BOUND = 0.97
FORCED = {"beam_size": 1, "min_length": 30, "max_length": 30}
GREEDY = {"beam_size": 1}
BEAM = {"beam_size": 4}
BATCH = 50
LOGITS = 3.0  # standard deviation of the logits
LAYERS = 0.6  # gain of the layers' matrices
# Names of the first ids, and of the last.
NAMES = {"marian": (["</s>", "<unk>"], ["<pad>"]),
         "m2m_100": (["<s>", "<pad>", "</s>", "<unk>"], []),
         "mbart": (["<s>", "<pad>", "</s>", "<unk>"], [])}
CONFIGS = {"marian": MarianConfig, "m2m_100": M2M100Config, "mbart": MBartConfig}
KEYS = ["mean", "max", "max_concat", "sample_concat", "sample_sum"]


def random_shape(rng):
    head, heads = rng.choice([8, 12, 16, 32, 64]), rng.choice([2, 3, 4, 8])
    while not 64 <= head * heads <= 256:
        head, heads = rng.choice([8, 12, 16, 32, 64]), rng.choice([2, 3, 4, 8])
    d = head * heads
    return {
        "d_model": d,
        "encoder_layers": rng.randint(2, 6),
        "decoder_layers": rng.randint(2, 6),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": rng.randrange(d, 3 * d, 4),
        "decoder_ffn_dim": rng.randrange(2 * d, 3 * d, 4),
        "vocab_size": rng.randint(500, 8000),
        "activation_function": rng.choice(["swish", "relu", "gelu"]),
        "scale_embedding": rng.random() < 0.5,
        "share_encoder_decoder_embeddings": rng.random() < 0.7,
    }


def random_area(rng, shape):
    def widths(layers):
        return {"width": [rng.randint(1, 6) for _ in range(layers)]}

    return {
        "key": rng.choice(KEYS),
        "value": rng.choice(["sum", "mean", "max"]),
        "weights": rng.choice(["softmax", "sigmoid"]),
        "temperature": rng.choice([0.7, 1.0, 1.5]),
        "encoder_self": widths(shape["encoder_layers"]),
        "decoder_self": widths(shape["decoder_layers"]),
        "decoder_cross": widths(shape["decoder_layers"]),
    }


def closing_norm(model):
    """What normalises the rows that the output layer reads."""
    decoder = model.model.decoder
    is_post = model.config.model_type == "marian"
    return decoder.layers[-1].final_layer_norm if is_post else decoder.layer_norm


def favour_the_end(model):
    """Sentences shall end: the end token's logit is about that of the 10th best of the others."""
    config, most = model.config, LOGITS * math.sqrt(2 * math.log(model.config.vocab_size))
    end = config.eos_token_id
    if config.model_type == "marian":
        model.final_logits_bias.normal_(std=0.5)
        model.final_logits_bias[0, end] = most - 1.5 * LOGITS
        return
    row = model.lm_head.weight[end]
    closing_norm(model).bias.copy_((most - 1.5 * LOGITS) * row / row.square().sum())


def randomize(model):
    """Random everywhere, except that the last layer turns its state by a random rotation: with tied
    embeddings a random model would otherwise repeat one token for ever."""
    config = model.config
    embedding = 1 / math.sqrt(config.d_model) if config.scale_embedding else 1.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                if weight.requires_grad:  # learned, as mBART's
                    weight.normal_(std=embedding)
            elif name.endswith(("layer_norm.weight", "layernorm_embedding.weight")):
                weight.copy_(1 + 0.1 * torch.randn(weight.shape))
            elif name.endswith("bias"):
                weight.normal_(std=0.1)
            elif ".area." not in name and ("embed" in name or "shared" in name):
                weight.normal_(std=embedding)
                weight[config.pad_token_id] = 0
            else:
                weight.normal_(std=LAYERS / math.sqrt(weight.shape[1]))
        last = model.model.decoder.layers[-1]
        rotate(last, config.d_model, config.model_type)
        closing_norm(model).weight.mul_(LOGITS / embedding / math.sqrt(config.d_model))
        favour_the_end(model)


def rotate(layer, d, model_type):
    """x + fc2(f(fc1(x))) becomes 3 R x and something random: f(z) - f(-z) = z for relu, gelu,
    swish. (x itself must go: it holds the last token's embedding, which is its own best match.)
    Where fc1 reads norms, x stays, and what is added must outweigh it."""
    turn = torch.linalg.qr(torch.randn(d, d))[0]
    turn = 3 * turn - torch.eye(d) if model_type == "marian" else 12 * turn
    layer.fc1.weight[: 2 * d] = torch.cat([turn, -turn])
    layer.fc2.weight[:, : 2 * d] = torch.cat([torch.eye(d), -torch.eye(d)], dim=1)


def save_vocabulary(directory, size, model_type):
    """Pieces are only names here: tests give tokens. The .spm files are what a loader expects."""
    text = [f"{a} {b} {a}{b}" for a in "some small words to learn from".split() for b in "abcdef"]
    for side in ("source", "target"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_prefix=str(directory / side),
            vocab_size=40,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (directory / f"{side}.model").rename(directory / f"{side}.spm")
        (directory / f"{side}.vocab").unlink()
    first, last = NAMES[model_type]
    names = [*first, *(f"▁t{i}" for i in range(len(first), size - len(last))), *last]
    text = json.dumps({name: i for i, name in enumerate(names)}, ensure_ascii=False)
    (directory / "vocab.json").write_text(text, encoding="utf-8")
    config = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))


def make_model(directory, rng, model_type, with_area):
    shape = random_shape(rng)
    ids = [*NAMES[model_type][0], *["▁"] * shape["vocab_size"]][: shape["vocab_size"]]
    end, pad = ids.index("</s>"), shape["vocab_size"] - 1 if model_type == "marian" else 1
    special = {"pad_token_id": pad, "eos_token_id": end, "forced_eos_token_id": end,
               "decoder_start_token_id": pad if model_type == "marian" else end}
    config = CONFIGS[model_type](**shape, **special, max_position_embeddings=128,
                                 encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    if with_area:
        config.area = random_area(rng, shape)
    if with_area and model_type == "marian":  # as Marian itself computes
        config.position_steps, config.layer_norm_epsilon = shape["d_model"] // 2 - 1, 1e-9
    torch.manual_seed(rng.getrandbits(32))
    model = reference.CLASSES[model_type](config)
    if with_area:
        reference.set_area(model, config.area)
    randomize(model)
    forced = None if model_type == "marian" else rng.randrange(4, shape["vocab_size"])
    model.generation_config = GenerationConfig(**special, num_beams=4, max_length=52,
                                               bad_words_ids=[[pad]], forced_bos_token_id=forced)
    model.save_pretrained(directory)
    save_vocabulary(directory, shape["vocab_size"], model_type)
    return shape, kind_of(config.area) if with_area else "no"


def kind_of(area):
    return "/".join((area["key"], area["value"], area["weights"]))


def id_of(token, model_type):
    first = NAMES[model_type][0]
    return first.index(token) if token in first else int(token[2:])


def acre(binary, directory, sources, options, model_type):
    """[(ids, S)] of the best hypotheses."""
    lines = [" ".join(f"▁t{i}" for i in source) + "\n" for source in sources]
    given = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
    given = [word for pair in given for word in pair.split("=")]
    command = [binary, "translate", "--model", str(directory), "--tokens", "--json",
               "--device", "cpu", "--compute-type", "f32", *given]
    result = subprocess.run(command, input="".join(lines), capture_output=True, text=True,
                            check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}: {result.stderr}")
    best = [json.loads(line)["hypotheses"][0] for line in result.stdout.splitlines()]
    return [([id_of(t, model_type) for t in h["tokens"]], h["score"]) for h in best]


def generate(model, sources, options):
    """The token ids of the best hypotheses, by transformers."""
    end, pad = model.config.eos_token_id, model.config.pad_token_id
    found = []
    for start in range(0, len(sources), BATCH):
        rows = [[*source, end] for source in sources[start : start + BATCH]]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        with torch.no_grad():
            sequences = model.generate(input_ids=ids, attention_mask=mask,
                                       **make_golden.arguments(options))
        found += [make_golden.cut(row, end) for row in sequences.tolist()]
    return found


def largest_error(directory, sources, forced):
    """Of the scores of forced tokens, against teacher forcing in float64."""
    model = reference.load(directory)
    end = model.config.eos_token_id
    errors = [abs(total - make_golden.score(model, [*source, end], tokens, FORCED))
              for source, (tokens, total) in zip(sources, forced, strict=True)]
    lengths = {len(tokens) for tokens, _ in forced}
    return max(errors) if lengths == {30} else math.inf


def check(binary, directory, rng, n_sentences):
    """(largest score error, share of equal greedy and beam translations, mean beam length)."""
    model = reference.load(directory, torch.float32)
    size, kind = model.config.vocab_size, model.config.model_type
    sources = [[rng.randrange(len(NAMES[kind][0]), size - 1) for _ in range(rng.randint(1, 40))]
               for _ in range(n_sentences)]
    error = largest_error(directory, sources, acre(binary, directory, sources, FORCED, kind))
    shares = []
    for options in (GREEDY, BEAM):
        expected = generate(model, sources, options)
        found = [tokens for tokens, _ in acre(binary, directory, sources, options, kind)]
        shares.append(sum(a == b for a, b in zip(found, expected)) / n_sentences)
    return error, *shares, sum(map(len, expected)) / n_sentences


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=12)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--acre", default=os.environ.get("ACRE", str(ROOT / "build/acre")))
    parser.add_argument("--keep", type=Path, help="folder in which the models stay")
    return parser.parse_args()


def main():
    options = parse_arguments()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    failed = 0
    print("model  layers d_model heads   ffn vocab  |score error|  greedy   beam  length  "
          "kind, areas")
    for i in range(options.models):
        rng = random.Random(options.seed * 1000 + i)
        with tempfile.TemporaryDirectory() as work:
            directory = (options.keep or Path(work)) / f"random-{options.seed}-{i}"
            directory.mkdir(parents=True)
            model_type = list(NAMES)[i // 2 % 3]
            shape, kind = make_model(directory, rng, model_type, i % 2 == 1)
            result = check(options.acre, directory, rng, options.sentences)
        error, greedy, beam, length = result
        good = error <= SCORE_BOUND and min(greedy, beam) >= SHARE_BOUND
        failed += not good
        print(f"{i:5} {shape['encoder_layers']:4}+{shape['decoder_layers']}"
              f" {shape['d_model']:7} {shape['encoder_attention_heads']:5}"
              f" {shape['encoder_ffn_dim']:5} {shape['vocab_size']:5}"
              f" {error:14.1e} {greedy:7.0%} {beam:6.0%} {length:7.1f}  {model_type}, {kind}"
              f"{'' if good else '  FAILED'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
