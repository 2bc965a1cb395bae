"""CTranslate2, the engine that Acre is measured against. Runs in build/venv-bench.

    peer.py convert MODEL OUT               a MarianMT directory for CTranslate2, without PyTorch
    peer.py translate OUT INPUT [options]   greedy or beam search; prints tokens
    peer.py bench OUT INPUT [options]       the same, timed; prints one JSON object

INPUT has a sentence a line, tokens separated by spaces, end tokens implied, as for `acre --tokens`.
"""

import argparse
import json
import math
import os
import time
from pathlib import Path

import ctranslate2
import numpy as np
from ctranslate2.converters.utils import fuse_linear
from ctranslate2.specs import TransformerSpec, common_spec

END = "</s>"

# ---- Converting -------------------------------------------------------------------------------
# What ctranslate2.converters.transformers.MarianMTLoader does, from numpy arrays.


def read_safetensors(path):
    data = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    tensors = {}
    for name, entry in json.loads(data[8:start].tobytes()).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise SystemExit(f"{path}: {name}: expected F32, found {entry['dtype']}")
        begin, end = entry["data_offsets"]
        values = data[start + begin : start + end].view(np.float32)
        tensors[name] = np.array(values.reshape(entry["shape"]))
    return tensors


def position_encodings(rows, d_model):
    """Sines in the first half of the vector, cosines in the second."""
    i = np.arange(d_model // 2)
    angle = np.arange(rows)[:, None] / 10000 ** (2 * i / d_model)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)


class Marian:
    """A MarianMT directory that fills the specification of CTranslate2."""

    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.tensors = read_safetensors(directory / "model.safetensors")
        self.vocabulary = json.loads((directory / "vocab.json").read_text())
        self.check(directory)

    def check(self, directory):
        config = self.config
        widths = [max(part["width"]) for part in config.get("area", {}).values()
                  if isinstance(part, dict)]
        if max(widths, default=1) > 1:
            raise SystemExit(f"{directory}: the peer has no area attention")
        if config["activation_function"] != "relu" or not config["scale_embedding"]:
            raise SystemExit(f"{directory}: expected relu and scaled embeddings")
        if config["pad_token_id"] != config["vocab_size"] - 1:
            raise SystemExit(f"{directory}: expected <pad> to be the last token")

    def without_pad(self, name):
        """CTranslate2 starts from a zero embedding and never emits <pad> if it does not exist."""
        return self.tensors[name].reshape(self.config["vocab_size"], -1)[:-1]

    def set_linear(self, spec, name):
        spec.weight = self.tensors[name + ".weight"]
        spec.bias = self.tensors[name + ".bias"]

    def set_norm(self, spec, name):
        spec.gamma = self.tensors[name + ".weight"]
        spec.beta = self.tensors[name + ".bias"]

    def set_attention(self, spec, name, is_self):
        parts = []
        for projection in ("q_proj", "k_proj", "v_proj"):
            parts.append(common_spec.LinearSpec())
            self.set_linear(parts[-1], f"{name}.{projection}")
        if is_self:
            fuse_linear(spec.linear[0], parts)
        else:
            fuse_linear(spec.linear[0], parts[:1])
            fuse_linear(spec.linear[1], parts[1:])
        self.set_linear(spec.linear[-1], f"{name}.out_proj")
        self.set_norm(spec.layer_norm, f"{name}_layer_norm")

    def set_layer(self, spec, name):
        self.set_attention(spec.self_attention, f"{name}.self_attn", True)
        if hasattr(spec, "attention"):
            self.set_attention(spec.attention, f"{name}.encoder_attn", False)
        self.set_linear(spec.ffn.linear_0, f"{name}.fc1")
        self.set_linear(spec.ffn.linear_1, f"{name}.fc2")
        self.set_norm(spec.ffn.layer_norm, f"{name}.final_layer_norm")

    def set_stack(self, spec, embeddings, name):
        d_model = self.config["d_model"]
        spec.scale_embeddings = math.sqrt(d_model)
        embeddings.weight = self.without_pad("model.shared.weight")
        spec.position_encodings.encodings = position_encodings(
            self.config["max_position_embeddings"], d_model
        )
        for i, layer in enumerate(spec.layer):
            self.set_layer(layer, f"{name}.layers.{i}")

    def set_vocabulary(self, spec):
        tokens = sorted(self.vocabulary, key=self.vocabulary.get)[:-1]
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.config.eos_token = END
        spec.config.unk_token = "<unk>"
        # Any token does: the decoder starts from a zero embedding.
        spec.config.decoder_start_token = END

    def spec(self):
        config = self.config
        spec = TransformerSpec.from_config(
            (config["encoder_layers"], config["decoder_layers"]),
            config["encoder_attention_heads"],
            pre_norm=False,
            activation=common_spec.Activation.RELU,
        )
        self.set_stack(spec.encoder, spec.encoder.embeddings[0], "model.encoder")
        self.set_stack(spec.decoder, spec.decoder.embeddings, "model.decoder")
        spec.decoder.start_from_zero_embedding = True
        spec.decoder.projection.weight = self.without_pad("model.shared.weight")
        bias = self.without_pad("final_logits_bias").ravel()
        if bias.any():
            spec.decoder.projection.bias = bias
        self.set_vocabulary(spec)
        return spec


def convert(args):
    spec = Marian(args.model).spec()
    spec.validate()
    spec.optimize(quantization="float32")
    args.out.mkdir(parents=True, exist_ok=True)
    spec.save(str(args.out))


# ---- Translating ------------------------------------------------------------------------------


def open_translator(args):
    """As float32 on disk; CTranslate2 quantises while loading."""
    return ctranslate2.Translator(
        str(args.model), device=args.device, compute_type=args.compute_type,
        inter_threads=args.inter_threads, intra_threads=args.intra_threads,
    )


def translate_all(translator, sentences, args):
    results = translator.translate_batch(
        sentences, max_batch_size=args.batch_size, batch_type="examples",
        beam_size=args.beam_size, min_decoding_length=args.length, max_decoding_length=args.length,
    )
    return [result.hypotheses[0] for result in results]


def read_sentences(path):
    return [line.split() + [END] for line in path.read_text().splitlines() if line]


def translate(args):
    for tokens in translate_all(open_translator(args), read_sentences(args.input), args):
        print(" ".join(tokens))


def bench(args):
    sentences = read_sentences(args.input)
    began = time.monotonic()
    translator = open_translator(args)
    load_seconds = time.monotonic() - began
    translate_all(translator, sentences[: args.batch_size * args.inter_threads], args)
    began = time.monotonic()
    for _ in range(args.repeat):
        outputs = translate_all(translator, sentences, args)
    seconds = (time.monotonic() - began) / args.repeat
    target_tokens = sum(len(tokens) for tokens in outputs)
    print(json.dumps({
        "engine": f"CTranslate2 {ctranslate2.__version__}",
        "compute_type": translator.compute_type,
        "inter_threads": args.inter_threads,
        "intra_threads": args.intra_threads,
        "beam_size": args.beam_size,
        "batch_size": args.batch_size,
        "sentences": len(sentences),
        "target_tokens": target_tokens,
        "seconds": seconds,
        "tokens_per_second": target_tokens / seconds,
        "load_seconds": load_seconds,
        "settings": {key: os.environ[key] for key in os.environ if key.startswith("CT2_")},
    }))


# ---- Command line -----------------------------------------------------------------------------


def add_translation_options(parser):
    parser.add_argument("model", type=Path, help="a directory that `convert` wrote")
    parser.add_argument("input", type=Path, help="a sentence a line, as tokens")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--compute-type", default="float32", help="float32 (default), int8, ...")
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32, help="sentences (default: 32)")
    parser.add_argument("--length", type=int, required=True, help="target tokens, forced")
    parser.add_argument("--inter-threads", type=int, default=1, help="batches at a time")
    parser.add_argument("--intra-threads", type=int, default=1, help="threads in one batch")
    parser.add_argument("--repeat", type=int, default=1, help="timed passes over the input")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    converting = commands.add_parser("convert", help="a MarianMT directory for CTranslate2")
    converting.add_argument("model", type=Path)
    converting.add_argument("out", type=Path)
    converting.set_defaults(run=convert)
    for name, function in (("translate", translate), ("bench", bench)):
        command = commands.add_parser(name, help=f"{name} a file of tokens")
        add_translation_options(command)
        command.set_defaults(run=function)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse_args()
    arguments.run(arguments)
