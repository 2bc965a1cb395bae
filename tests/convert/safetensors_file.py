"""Reading safetensors, for comparing: written apart from models/convert."""

import json

import numpy as np

DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_tensors(folder):
    """Name -> (type, array) of a model directory; bfloat16 as 16 bits."""
    data = (folder / "model.safetensors").read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = (begin + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[first:last], DTYPES[entry["dtype"]])
        tensors[name] = entry["dtype"], array.reshape(entry["shape"])
    return tensors


def as_float32(dtype, array):
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)
