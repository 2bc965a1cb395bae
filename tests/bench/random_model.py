"""Writes a model directory with random weights, for measuring speed.

    python tests/bench/random_model.py DIR --preset small --width 5

The same seed gives the same weights whatever the area width, so that directories of different
widths differ in config.json alone. Vocabulary pieces come from a golden test model; the rest of
the vocabulary has made-up names.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from models.convert.layout import layer_shapes  # noqa: E402

PIECES = ROOT / "tests/golden/models/tiny-token"
GAIN = 8  # of fc2, whose rows sum to 0: else every output repeats one token
# layers, d_model, heads, inner width, vocabulary
PRESETS = {
    "tiny": (2, 128, 4, 512, 8000),
    "small": (2, 256, 4, 1024, 8000),
    "base": (6, 512, 8, 2048, 32000),
}


def tensor_shapes(layers, d_model, ffn, vocab):
    yield "model.shared.weight", (vocab, d_model)
    yield "final_logits_bias", (1, vocab)
    for i in range(layers):
        yield from layer_shapes(f"model.encoder.layers.{i}", d_model, ffn, ["self_attn"])
        yield from layer_shapes(
            f"model.decoder.layers.{i}", d_model, ffn, ["self_attn", "encoder_attn"]
        )


def scale_of(name, shape):
    if len(shape) == 1 or name == "final_logits_bias":
        return 0.02
    return shape[-1] ** -0.5 * (GAIN if ".fc2." in name else 1)


def random_tensor(rng, name, shape):
    if name.endswith("norm.weight"):
        return np.ones(shape, np.float32)
    tensor = (rng.standard_normal(shape) * scale_of(name, shape)).astype(np.float32)
    if ".fc2." in name and len(shape) == 2:
        tensor -= tensor.mean(axis=1, keepdims=True)
    if name == "model.shared.weight":
        tensor[-1] = 0  # <pad>, from which decoding starts, as in every Marian model
    return tensor


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def write_vocabulary(directory, vocab):
    for name in ("source.spm", "target.spm", "tokenizer_config.json"):
        shutil.copyfile(PIECES / name, directory / name)
    pieces = json.loads((PIECES / "vocab.json").read_text())
    pieces.pop("<pad>")
    pieces |= {f"▁made{i}up": i for i in range(len(pieces), vocab - 1)}
    pieces["<pad>"] = vocab - 1
    (directory / "vocab.json").write_text(json.dumps(pieces, ensure_ascii=False))


def write_config(directory, layers, d_model, heads, ffn, vocab, width):
    widths = {"width": [width] * layers}
    config = {
        "model_type": "marian",
        "d_model": d_model,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": ffn,
        "decoder_ffn_dim": ffn,
        "activation_function": "relu",
        "vocab_size": vocab,
        "max_position_embeddings": 512,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "pad_token_id": vocab - 1,
        "decoder_start_token_id": vocab - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "bad_words_ids": [[vocab - 1]],
        "num_beams": 4,
        "max_length": 512,
        "area": {
            "key": "mean",
            "value": "sum",
            "encoder_self": widths,
            "decoder_self": widths,
            "decoder_cross": widths,
        },
    }
    (directory / "config.json").write_text(json.dumps(config, indent=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--preset", choices=PRESETS, default="small")
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    layers, d_model, heads, ffn, vocab = PRESETS[args.preset]
    rng = np.random.default_rng(args.seed)
    tensors = {
        name: random_tensor(rng, name, shape)
        for name, shape in tensor_shapes(layers, d_model, ffn, vocab)
    }
    args.directory.mkdir(parents=True, exist_ok=True)
    write_safetensors(args.directory / "model.safetensors", tensors)
    write_vocabulary(args.directory, vocab)
    write_config(args.directory, layers, d_model, heads, ffn, vocab, args.width)


if __name__ == "__main__":
    main()
