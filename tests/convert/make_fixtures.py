#!/usr/bin/env python3
"""Makes tests/convert/fixtures/: a golden model's weights as transformers and PyTorch save them.

    build/venv-parity/bin/python tests/convert/make_fixtures.py

`zip.bin` is the layout of PyTorch since 1.6, `legacy.bin` the one before, which older uploads have.
transformers 5 writes safetensors only; what its older versions wrote was torch.save of the state
dict.
"""

from pathlib import Path

import torch
from transformers import MarianMTModel

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "golden/models/two-vocabs"


def main():
    torch.set_num_threads(1)
    model = MarianMTModel.from_pretrained(MODEL, dtype="auto")
    folder = HERE / "fixtures"
    folder.mkdir(exist_ok=True)
    state = model.state_dict()
    torch.save(state, folder / "zip.bin")
    torch.save(state, folder / "legacy.bin", _use_new_zipfile_serialization=False)
    for path in sorted(folder.iterdir()):
        print(f"{path.name} {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
