"""A golden model as Marian would have saved it: written from Marian's own naming (marian-dev,
src/models/transformer.h and encoder_decoder.cpp), apart from models/convert.

Marian multiplies rows by matrices, so matrices are [in, out]; biases and scales are rows; layers
count from 1; there is no padding, so its row goes.
"""

import json
import re
import shutil

import numpy as np
from safetensors_file import as_float32, read_tensors

# As marian-train 1.9 writes them; {...} is filled in.
OPTIONS = """\
bert-train-type-embeddings: true
bert-type-vocab-size: 2
dec-cell: gru
dec-cell-base-depth: 2
dec-cell-high-depth: 1
dec-depth: {decoder_layers}
dim-emb: {d_model}
dim-rnn: 1024
dim-vocabs:
  - {source_rows}
  - {target_rows}
enc-cell: gru
enc-cell-depth: 1
enc-depth: {encoder_layers}
enc-type: bidirectional
input-types:
  []
layer-normalization: false
lemma-dim-emb: 0
output-omit-bias: false
right-left: false
skip: false
special-vocab: ~
tied-embeddings: {tied}
tied-embeddings-all: {tied_all}
tied-embeddings-src: false
transformer-aan-activation: swish
transformer-aan-depth: 2
transformer-aan-nogate: false
transformer-decoder-autoreg: self-attention
transformer-decoder-dim-ffn: {decoder_ffn_dim}
transformer-decoder-ffn-depth: 0
transformer-dim-aan: 2048
transformer-dim-ffn: {encoder_ffn_dim}
transformer-ffn-activation: {activation_function}
transformer-ffn-depth: 2
transformer-guided-alignment-layer: last
transformer-heads: {encoder_attention_heads}
transformer-no-projection: false
transformer-pool: false
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-preprocess: ""
transformer-tied-layers:
  []
transformer-train-position-embeddings: false
type: transformer
ulr: false
ulr-dim-emb: 0
ulr-trainable-transformation: false
version: v1.9.0 ba94c5b9 2020-05-17 10:42:17 +0100"""

DECODER = """\
relative-paths: true
models:
  - model.npz
vocabs:
  - {source}
  - {target}
beam-size: 6
normalize: 0.8
word-penalty: 0
mini-batch: 1
maxi-batch: 1
maxi-batch-sort: none
"""


def attention(ours, theirs, weight):
    for letter, name in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("o", "out_proj")):
        yield f"{theirs}_W{letter}", weight(f"{ours}.{name}.weight").T
        yield f"{theirs}_b{letter}", weight(f"{ours}.{name}.bias")[None, :]
    yield f"{theirs}_Wo_ln_scale", weight(f"{ours}_layer_norm.weight")[None, :]
    yield f"{theirs}_Wo_ln_bias", weight(f"{ours}_layer_norm.bias")[None, :]


def layer(ours, theirs, weight, kinds):
    for kind, name in kinds:
        yield from attention(f"{ours}.{kind}", f"{theirs}_{name}", weight)
    for number in "12":
        yield f"{theirs}_ffn_W{number}", weight(f"{ours}.fc{number}.weight").T
        yield f"{theirs}_ffn_b{number}", weight(f"{ours}.fc{number}.bias")[None, :]
    yield f"{theirs}_ffn_ffn_ln_scale", weight(f"{ours}.final_layer_norm.weight")[None, :]
    yield f"{theirs}_ffn_ffn_ln_bias", weight(f"{ours}.final_layer_norm.bias")[None, :]


def marian_arrays(model):
    """Name -> array of a golden model, in float32."""
    config = json.loads((model / "config.json").read_text())
    tensors = read_tensors(model)
    pad = config["pad_token_id"]

    def weight(name):
        return as_float32(*tensors[name])

    arrays = {"decoder_ff_logit_out_b": np.delete(weight("final_logits_bias"), pad, 1)}
    if config["share_encoder_decoder_embeddings"]:
        arrays["Wemb"] = np.delete(weight("model.shared.weight"), pad, 0)
    else:
        for side in ("encoder", "decoder"):
            arrays[f"{side}_Wemb"] = np.delete(weight(f"model.{side}.embed_tokens.weight"), pad, 0)
    kinds = [("self_attn", "self"), ("encoder_attn", "context")]
    for side, used in (("encoder", kinds[:1]), ("decoder", kinds)):
        for i in range(config[f"{side}_layers"]):
            arrays |= layer(f"model.{side}.layers.{i}", f"{side}_l{i + 1}", weight, used)
    return arrays


def options_of(model, arrays):
    config = json.loads((model / "config.json").read_text())
    shared = config["share_encoder_decoder_embeddings"]
    rows = [arrays[name].shape[0] for name in
            (("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb"))]
    return OPTIONS.format(source_rows=rows[0], target_rows=rows[1], tied=str(not shared).lower(),
                          tied_all=str(shared).lower(), **config)


def write_npz(path, arrays, options):
    text = np.frombuffer(options.encode() + b"\0", np.int8)
    np.savez(path, **arrays, **{"special:model.yml": text})


def quoted(piece):
    """As yaml-cpp does: plain where that is safe, else in double quotes with escapes."""
    if re.fullmatch(r"[\w▁</>][\w▁<>/.]*", piece) and piece not in ("null", "~"):
        return piece
    return json.dumps(piece, ensure_ascii=False)


def write_vocabulary(path, ids):
    pad = ids.pop("<pad>")
    lines = [f"{quoted(piece)}: {number - (number > pad)}" for piece, number in ids.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_marian(model, folder, **changed):
    """Writes the folder; `changed` replaces arrays, or takes them out where the value is None."""
    folder.mkdir()
    arrays = marian_arrays(model)
    options = options_of(model, arrays)
    arrays = {name: a for name, a in (arrays | changed).items() if a is not None}
    write_npz(folder / "model.npz", arrays, options)
    names = ["opus.vocab.yml"] * 2
    if (model / "target_vocab.json").exists():
        names = ["opus.src.vocab.yml", "opus.trg.vocab.yml"]
        write_vocabulary(folder / names[1], json.loads((model / "target_vocab.json").read_text()))
    write_vocabulary(folder / names[0], json.loads((model / "vocab.json").read_text()))
    (folder / "decoder.yml").write_text(DECODER.format(source=names[0], target=names[1]))
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(model / name, folder / name)
    return folder
