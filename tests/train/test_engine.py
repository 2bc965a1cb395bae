"""Exported models of every kind, with areas of every kind, in `acre translate` and in PyTorch.

The binary is build/acre, or what the environment variable ACRE names; without one, these skip.
"""

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from models.train import checkpoint  # noqa: E402
from models.train.build import new_model  # noqa: E402
from models.train.export import export  # noqa: E402
from models.train.lstm import Lstm  # noqa: E402
from models.train.model import Attention  # noqa: E402
from models.train.recipe import read_recipe  # noqa: E402
from models.train.search import greedy_ids  # noqa: E402
from models.train.shape import source_multiple  # noqa: E402
from models.train.vocabulary import ByteVocabulary  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ACRE = Path(os.environ.get("ACRE", ROOT / "build/acre"))
LONGEST = 40
BOUND = 1e-3  # of a sentence's score, in float32
RECIPE = {
    "name": "test", "source": "en", "target": "de", "level": "char", "preset": "tiny",
    "dropout": 0.0, "mix": {"all": {"share": 1, "corpora": {"*": 1}}},
    "phases": [{"max_length": 64, "batch_tokens": 400}],
}
AREAS = {
    "regular": "regular",
    "eq3": "eq3",
    "eq9": "eq9",
    "max-max": {"key": "max", "value": "max"},
    "sigmoid": {"weights": "sigmoid"},
    "sigmoid-items": {"weights": "sigmoid", "encoder_self": {"width": [1, 1]},
                      "decoder_self": {"width": [1, 1]}, "decoder_cross": {"width": [1, 1]}},
    "sigmoid-sum": {"key": "sum", "weights": "sigmoid", "temperature": 2.0},
    "mean-mean": {"value": "mean", "temperature": 0.5},
    "sample-concat": {"key": "sample_concat", "value": "mean"},
    "sample-sum": {"key": "sample_sum", "value": "max"},
    "top-k": {"key": "sample", "top_k": 2},
    "mixed": {"key": "max_concat", "encoder_self": {"width": [3, 1], "key": "mean"},
              "decoder_self": {"width": [1, 4], "value": "max"},
              "decoder_cross": {"width": [2, 6], "weights": "sigmoid"}},
}


def grid(rows, highest, **more):
    return {"memory_height": rows, "height": [highest, highest], "width": [3, 3]} | more


GRIDS = {
    "grid": {"encoder_self": grid(2, 2), "decoder_cross": grid(2, 2)},
    "grid-cross": {"decoder_cross": grid(3, 3, value="mean")},
    "grid-eq9": {"key": "concat", "encoder_self": grid(4, 2, width=[2, 2]),
                 "decoder_cross": grid(2, 2, width=[2, 2])},
    "grid-sum-sigmoid": {"key": "sum", "value": "mean", "weights": "sigmoid",
                         "encoder_self": grid(2, 2), "decoder_cross": grid(3, 2)},
    "grid-max-max": {"key": "max", "value": "max", "encoder_self": grid(3, 2, width=[1, 4]),
                     "decoder_cross": grid(3, 1)},
    "grid-top-k": {"top_k": 3, "temperature": 2.0, "encoder_self": grid(2, 4),
                   "decoder_cross": grid(2, 2, key="max_concat", height=[1, 2], width=[1, 2])},
}

LSTMS = {
    "lstm": {},
    "lstm-regular": {"area": "regular"},
    "lstm-heads": {"heads": 4},
    "lstm-max-max": {"heads": 2, "area": {"key": "max", "value": "max", "temperature": 2.0}},
    "lstm-sigmoid-top-k": {"area": {"key": "sample", "weights": "sigmoid", "top_k": 3,
                                    "decoder_cross": {"width": [4], "value": "mean"}}},
    "lstm-eq9": {"area": "eq9"},
    "lstm-eq9-heads": {"heads": 4, "area": "eq9"},
    "lstm-sum-sigmoid": {"heads": 2, "area": {"key": "sum", "weights": "sigmoid",
                                              "temperature": 2.0}},
    "lstm-max-concat": {"heads": 2, "area": {"key": "max_concat", "temperature": 2.0}},
    "lstm-one": {"area": {"key": "concat", "temperature": 2.0, "decoder_cross":
                          {"width": [1], "weights": "sigmoid"}}},
}

pytestmark = pytest.mark.skipif(not ACRE.exists(), reason="there is no acre")


SMALL = 1 / 256


@torch.no_grad()
def enliven(model):
    """Makes random weights tell sentences apart; then rounds them as export does."""
    (enliven_lstm if isinstance(model, Lstm) else enliven_transformer)(model)
    model.model.shared.weight.mul_(2.0)
    favour_letters(model)
    for weight in model.parameters():
        weight.copy_(weight.bfloat16())


def favour_letters(model):
    """Acre writes nothing that is not UTF-8: letters and the end only. Where logits have no bias,
    the first number of what the output layer reads is always 1, and embeddings have it there."""
    bias = torch.full((ByteVocabulary.size,), -20.0)
    bias[ByteVocabulary.FIRST + ord("a") :][:26] = 0.0
    is_post = getattr(model.shape, "norm", "post") == "post"
    bias[ByteVocabulary.end] = 2.0 if is_post else 0.0
    if is_post:
        model.final_logits_bias.copy_(bias[None])
        return
    norm = model.model.decoder.layer_norm
    norm.weight[0], norm.bias[0] = 0.0, 1.0
    model.model.shared.weight[:, 0] = bias


def enliven_lstm(model):
    for weight in model.parameters():
        weight.normal_(std=2.0 * weight.shape[-1] ** -0.5)
    model.clear_pad()
    attention = model.model.decoder.attention
    if attention.area.rule.combines:
        shrink_keys(attention)


def enliven_transformer(model):
    is_pre = model.shape.norm == "pre"
    for name, weight in model.named_parameters():
        if name.endswith(".bias"):
            weight.normal_(std=0.05)
        elif name.endswith("q_proj.weight"):
            weight.mul_(3.0)
        elif is_pre and name.endswith("encoder_attn.out_proj.weight"):
            weight.mul_(10.0)  # no norm follows: what is added must count beside the rest
    for module in model.modules():
        if isinstance(module, Attention) and module.area.rule.combines:
            shrink_keys(module)
    # Tied to the output, the embedding of the last token would make it the next one.
    decoder = model.model.decoder
    last = decoder.layer_norm if is_pre else decoder.layers[-1].final_layer_norm
    last.weight[::2] = -1.0


def shrink_keys(attention):
    """Small keys and large weights on their features.

    Acre's deviation of a single item is the root of 1e-6 and of what rounding leaves of 0, as the
    authors'; here it is exact. What rounding leaves shrinks with the keys.
    """
    for weight in attention.k_proj.parameters():
        weight.mul_(SMALL)
    if "sum" in attention.area.rule.key:
        attention.area.width_embedding.weight.mul_(SMALL)
        attention.area.height_embedding.weight.mul_(SMALL)
        attention.area.fc1.weight.div_(SMALL)
    else:
        features = attention.area.fc1.weight.shape[1] - attention.area.depth // 2 * 2
        attention.area.fc1.weight[:, :features].div_(SMALL)


def exported(changes, run):
    """A model of RECIPE with these changes: in PyTorch, and in run/model."""
    prepared = run / "prepared"
    prepared.mkdir()
    (prepared / "recipe.json").write_text(json.dumps(RECIPE | changes))
    (prepared / "sources.json").write_text(json.dumps({"corpora": {}}))
    recipe = read_recipe(prepared / "recipe.json")
    vocabulary = ByteVocabulary.write(prepared)
    torch.manual_seed(7)
    model = new_model(recipe, vocabulary).eval()
    enliven(model)
    best = {"average": dict(model.named_parameters()), "step": 1, "tokens": 1, "seconds": 1.0}
    checkpoint.save_atomically(best, run / "best.pt")
    export(run, run / "model")
    return model, vocabulary


def sentences(count, multiple=1):
    """So many sentences of which each has, with its end, a multiple of so many bytes."""
    chance = random.Random(4)
    letters = "abcdefghijklmnopqrstuvwxyz    "
    found = []
    while len(found) < count:
        words = "".join(chance.choices(letters, k=chance.randint(3, 50))).split()
        sentence = f"x{' '.join(words)}"
        if (len(sentence) + 1) % multiple == 0:
            found.append(sentence)
    return found


@torch.inference_mode()
def torch_translation(model, vocabulary, sentence):
    """(ids, log-probability) of greedy search; an end that is forced counts nothing."""
    source = torch.tensor([[*vocabulary.encode(sentence), vocabulary.end]])
    (ids,) = greedy_ids(model, source, vocabulary.end, LONGEST)
    model.reserve(LONGEST + 1)
    target = torch.tensor([[*ids, vocabulary.end]])
    chosen = model(source, target).log_softmax(-1).gather(-1, target[..., None])[0, :, 0]
    return ids, chosen[: LONGEST].sum().item()


def byte_of(token):
    """The byte of a token, which is spelled as its character or as <0xHH>."""
    hexadecimal = re.fullmatch("<0x([0-9A-Fa-f]{2})>", token)
    return int(hexadecimal[1], 16) if hexadecimal else ord(token)


def acre_translations(folder, lines):
    """(ids, score) of each line, in float32 by greedy search."""
    command = [ACRE, "translate", "--model", folder, "--compute-type", "f32", "--beam-size", "1",
               "--max-length", str(LONGEST), "--threads", "1", "--device", "cpu", "--json"]
    done = subprocess.run(command, input="".join(line + "\n" for line in lines), text=True,
                          capture_output=True, check=True, timeout=300)
    best = [json.loads(line)["hypotheses"][0] for line in done.stdout.splitlines()]
    return [([byte_of(token) + ByteVocabulary.FIRST for token in h["tokens"]], h["score"])
            for h in best]


DEEP = {"encoder_layers": 3, "decoder_layers": 1, "width": 64, "heads": 4, "inner": 96}
PRE_NORM = {
    "pre": {"area": "regular"},
    "pre-eq3": {"area": "eq3"},
    "pre-eq9": {"area": "eq9"},
    "pre-max": {"area": {"key": "max_concat", "value": "mean", "weights": "sigmoid"}},
    "pre-grid": {"area": GRIDS["grid"]},
    "pre-deep": {"preset": DEEP},
}
RECIPES = ({name: {"area": area} for name, area in (AREAS | GRIDS).items()}
           | {name: {"norm": "pre"} | changes for name, changes in PRE_NORM.items()}
           | {name: {"preset": "lstm-256"} | changes for name, changes in LSTMS.items()})


@pytest.mark.parametrize("changes", RECIPES.values(), ids=RECIPES)
def test_acre_translates_as_pytorch(changes, tmp_path):
    model, vocabulary = exported(changes, tmp_path)
    lines = sentences(20, source_multiple(model.shape))
    found = acre_translations(tmp_path / "model", lines)
    expected = [torch_translation(model, vocabulary, line) for line in lines]
    assert len({tuple(ids) for ids, _ in expected}) > 4  # it tells sentences apart
    for (ids, score), (torch_ids, torch_score) in zip(found, expected, strict=True):
        assert ids == torch_ids
        assert score == pytest.approx(torch_score, abs=BOUND)


def test_exported_section_and_parameters(tmp_path):
    from safetensors.torch import load_file

    cross = {"width": [4, 5], "height": [2, 3], "memory_height": 6}
    exported({"area": {"key": "concat", "decoder_cross": cross}}, tmp_path)
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["area"] == {"key": "concat", "value": "sum", "top_k": 0, "temperature": 1.0,
                              "encoder_self": {"width": [5, 5]}, "decoder_self": {"width": [5, 5]},
                              "decoder_cross": cross}
    tensors = load_file(tmp_path / "model/model.safetensors")
    prefix = "model.decoder.layers.1.encoder_attn.area"
    assert tensors[f"{prefix}.fc1.weight"].shape == (32, 96)
    assert tensors[f"{prefix}.fc2.weight"].shape == (32, 32)
    assert tensors[f"{prefix}.width_embedding.weight"].shape == (5, 16)
    assert tensors[f"{prefix}.height_embedding.weight"].shape == (3, 16)
