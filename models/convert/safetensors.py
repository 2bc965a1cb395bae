"""Writing model.safetensors: length of the header, header as JSON, the tensors' bytes."""

import json

import numpy as np

ALIGNMENT = 8


def header_of(tensors):
    # transformers opens only files that say who wrote them; "pt" stands for its own layout.
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.size_bytes
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape),
                        "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    return text + b" " * (-len(text) % ALIGNMENT)


def write_safetensors(path, tensors):
    """Loads one tensor after the other, so that large models need little memory."""
    header = header_of(tensors)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor.load()).data)
