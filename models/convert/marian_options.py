"""The options that a Marian model was trained with, `special:model.yml`, as config.json.

Every option has to be known: one that Acre computes, one whose only accepted values change nothing
at inference, or one of another kind of model. An unknown one may change what is computed.
"""

import re

from .errors import ConvertError, shown, unlike
from .layout import LARGEST_BEAM

# Marian's own defaults where an option is absent or null.
DEFAULTS = {
    "transformer-heads": "8", "transformer-dim-ffn": "2048", "enc-depth": "1", "dec-depth": "1",
}
# Option -> the values that Acre computes; absence is one too. Dropout, the d, is for training only.
ONLY = {
    "type": ("transformer",),
    "transformer-preprocess": ("", "d"),
    "transformer-postprocess": ("dan", "an"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("", "d"),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-attention-mask": ("default", ""),
    "transformer-no-projection": ("false",),
    "transformer-no-bias": ("false",),
    "transformer-no-affine": ("false",),
    "transformer-pool": ("false",),
    "transformer-rnn-projection": ("false",),
    "transformer-train-positions": ("false",),
    "transformer-train-position-embeddings": ("false",),
    "transformer-disable-position-embeddings": ("false",),
    "transformer-alibi-trainable": ("false",),
    "right-left": ("false",),
    "layer-normalization": ("false",),
    "ulr": ("false",),
    "ulr-trainable-transformation": ("false",),
    "ulr-dim-emb": ("0",),
    "lemma-dim-emb": ("0",),
    "lemma-dependency": ("",),
    "factors-combine": ("sum", ""),
    "factors-dim-emb": ("0",),
}
LISTS = {"transformer-tied-layers": ((),), "input-types": ((), ("sequence", "sequence"))}
BOOLEANS = ("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all", "output-omit-bias")
ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "swish"}
# Of recurrent, average-attention and BERT models, of training, or for people.
OTHERS = {
    "version", "original-type", "skip", "best-deep", "special-vocab", "separator-symbol", "dim-rnn",
    "enc-type", "enc-cell", "enc-cell-depth", "dec-cell", "dec-cell-base-depth",
    "dec-cell-high-depth", "transformer-dim-aan", "transformer-aan-depth",
    "transformer-aan-activation", "transformer-aan-nogate", "transformer-alibi-shift",
    "transformer-guided-alignment-layer", "transformer-depth-scaling", "bert-mask-symbol",
    "bert-sep-symbol", "bert-class-symbol", "bert-masking-fraction", "bert-train-type-embeddings",
    "bert-type-vocab-size", "char-stride", "char-highway", "char-conv-filters-num",
    "char-conv-filters-widths",
}
SIZES = ("dim-emb", "transformer-heads", "transformer-dim-ffn", "enc-depth", "dec-depth")
MAX_LENGTH = 512  # as every OPUS-MT model on Hugging Face has it
BEAM_SIZE, NORMALIZE = "4", "1"  # where there is no decoder.yml
LARGEST_PENALTY = 10


class Options:
    """The options by name; what is absent or null has Marian's default."""

    def __init__(self, name, mapping):
        self.name, self.mapping = name, mapping
        for option, accepted in (ONLY | LISTS).items():
            self._check(option, accepted)
        known = {*ONLY, *LISTS, *BOOLEANS, *OTHERS, *SIZES, "dim-vocabs",
                 "transformer-decoder-dim-ffn", "transformer-ffn-activation"}
        for option, value in mapping.items():
            if option not in known:
                raise unlike(f"{name}: {option}", "an option that Acre knows", shown(value))

    def _check(self, option, accepted):
        value = self.mapping.get(option)
        if isinstance(value, list):
            value = tuple(value)
        if value is None or value in accepted:
            return
        names = " or ".join(shown(one) for one in accepted)
        raise unlike(f"{self.name}: {option}", names, f"{shown(value)}, which Acre does not "
                     "compute")

    def size(self, option):
        text = self.mapping.get(option) or DEFAULTS.get(option)
        if not isinstance(text, str) or not re.fullmatch("[0-9]{1,8}", text):
            raise unlike(f"{self.name}: {option}", "an integer", shown(text))
        return int(text)

    def check_rows(self, rows):
        """dim-vocabs, where training filled it in, are the rows of the embeddings."""
        sizes = self.mapping.get("dim-vocabs") or []
        expected = [str(rows[0]), str(rows[-1])]
        if any(size != "0" for size in sizes) and sizes != expected:
            raise unlike(f"{self.name}: dim-vocabs", f"{' and '.join(expected)}, the rows of the "
                         "embeddings", shown(sizes))

    def flag(self, option):
        value = self.mapping.get(option) or "false"
        if value not in ("true", "false"):
            raise unlike(f"{self.name}: {option}", "true or false", shown(value))
        return value == "true"

    def activation(self):
        name = self.mapping.get("transformer-ffn-activation") or "swish"
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise unlike(f"{self.name}: transformer-ffn-activation", "relu, swish or gelu",
                         shown(name))
        return name

    def is_shared(self):
        """Whether source and target have one embedding; the output must be the target's."""
        if self.flag("tied-embeddings-all"):
            return True
        if not self.flag("tied-embeddings"):
            raise ConvertError(f"{self.name}: tied-embeddings: expected true, or "
                               "tied-embeddings-all, found false: Acre's output layer is the "
                               "target's embedding")
        return self.flag("tied-embeddings-src")


def config_of(options, source_size, target_size, pad, end):
    """config.json of a model of these vocabularies, padding included."""
    inner = options.size("transformer-dim-ffn")
    decoder_inner = options.mapping.get("transformer-decoder-dim-ffn") or "0"
    heads = options.size("transformer-heads")
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": options.size("dim-emb"),
        "encoder_layers": options.size("enc-depth"),
        "decoder_layers": options.size("dec-depth"),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner,
        "decoder_ffn_dim": inner if decoder_inner == "0"
        else options.size("transformer-decoder-dim-ffn"),
        "activation_function": ACTIVATIONS[options.activation()],
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "share_encoder_decoder_embeddings": options.is_shared(),
        "tie_word_embeddings": True,
        "vocab_size": source_size,
        "decoder_vocab_size": target_size,
        "max_position_embeddings": MAX_LENGTH,
        "layer_norm_epsilon": 1e-9,
        # The last of the d_model / 2 wavelengths is 10000 times the first.
        "position_steps": max(1, options.size("dim-emb") // 2 - 1),
        "pad_token_id": pad,
        "eos_token_id": end,
        "decoder_start_token_id": pad,
        "forced_eos_token_id": end,
    }


def number_of(where, text, kind, least, most):
    """A number of decoder.yml."""
    try:
        value = kind(text)
    except (TypeError, ValueError):
        value = None
    if value is None or not least <= value <= most:
        raise unlike(where, f"a number from {least} to {most}", shown(text))
    return value


def generation_of(name, decoder, config, unknown):
    """generation_config.json: how decoder.yml searches. Marian never emits the unknown piece,
    unless it is told to."""
    never = [[config["pad_token_id"]]]
    if decoder.get("allow-unk") != "true":
        never.append([unknown])
    return {
        "num_beams": number_of(f"{name}: beam-size", decoder.get("beam-size") or BEAM_SIZE, int, 1,
                               LARGEST_BEAM),
        "length_penalty": number_of(f"{name}: normalize", decoder.get("normalize") or NORMALIZE,
                                    float, 0, LARGEST_PENALTY),
        "max_length": MAX_LENGTH,
        "early_stopping": False,
        "bad_words_ids": never,
        "pad_token_id": config["pad_token_id"],
        "eos_token_id": config["eos_token_id"],
        "decoder_start_token_id": config["decoder_start_token_id"],
        "forced_eos_token_id": config["forced_eos_token_id"],
    }
