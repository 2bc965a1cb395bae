"""Model directories as older versions of transformers and converters write them.

Each is made from tests/golden/models/tiny-area and must give the very same output.
"""

import json
import shutil

import numpy as np
import pytest
from test_models import MODELS, acre, sources

MODEL = next(path for path in MODELS if path.name == "tiny-area")


def read_tensors(path):
    """Name -> (dtype, shape, bytes) of a safetensors file."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {
        name: (t["dtype"], t["shape"], data[start + t["data_offsets"][0] :
                                            start + t["data_offsets"][1]])
        for name, t in header.items()
    }


def write_tensors(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        offsets = [offset, offset + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def positions(config):
    """The sinusoidal table as a tensor."""
    n, d = config["max_position_embeddings"], config["d_model"]
    angles = np.arange(n)[:, None] / 10000 ** (2 * np.arange(d // 2)[None, :] / d)
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype("<f4")
    return "F32", [n, d], table.tobytes()


def rewrite(directory, change):
    """A copy of MODEL whose config.json and tensors went through change(config, tensors)."""
    shutil.copytree(MODEL, directory)
    config = json.loads((directory / "config.json").read_text())
    tensors = read_tensors(directory / "model.safetensors")
    change(directory, config, tensors)
    (directory / "config.json").write_text(json.dumps(config))
    write_tensors(directory / "model.safetensors", tensors)


def decoding_in_config(directory, config, _):
    """Before generation_config.json existed."""
    generation = json.loads((directory / "generation_config.json").read_text())
    config |= {key: value for key, value in generation.items() if key != "transformers_version"}
    config["torch_dtype"] = config.pop("dtype")
    (directory / "generation_config.json").unlink()


def every_tensor_written(_, config, tensors):
    """Shared embeddings under all their names, and the table of positions."""
    shared = tensors["model.shared.weight"]
    for name in ("lm_head", "model.encoder.embed_tokens", "model.decoder.embed_tokens"):
        tensors[f"{name}.weight"] = shared
    for side in ("encoder", "decoder"):
        tensors[f"model.{side}.embed_positions.weight"] = positions(config)


def tensors_in_another_order(_, config, tensors):
    for name in sorted(tensors, reverse=True):
        tensors[name] = tensors.pop(name)


def unknown_keys(_, config, __):
    config |= {"add_bias_logits": False, "normalize_before": False, "classif_dropout": 0.0,
               "id2label": {"0": "LABEL_0"}, "static_position_embeddings": True,
               "gradient_checkpointing": False, "normalize_embedding": False}


@pytest.mark.parametrize("change", (decoding_in_config, every_tensor_written,
                                    tensors_in_another_order, unknown_keys))
def test_layout(tmp_path, change):
    rewrite(tmp_path / "model", change)
    lines = sources(MODEL)[:8]
    expected = acre(MODEL, lines, "--tokens", "--json")
    assert acre(tmp_path / "model", lines, "--tokens", "--json") == expected
