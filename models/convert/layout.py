"""What a model of MarianMT, M2M100 or mBART consists of: the tensors that config.json asks for, and
their limits."""

from .errors import missing, shown, unlike

# As in engine/model/config.c, so that what is converted can be opened.
LARGEST_WIDTH, LARGEST_VOCABULARY, MOST_LAYERS, MOST_HEADS = 65536, 1 << 24, 64, 1024
LARGEST_BEAM = 64
ACTIVATIONS = ("relu", "swish", "silu", "gelu")
SIZES = {
    "d_model": (2, LARGEST_WIDTH),
    "encoder_layers": (1, MOST_LAYERS),
    "decoder_layers": (1, MOST_LAYERS),
    "encoder_attention_heads": (1, MOST_HEADS),
    "decoder_attention_heads": (1, MOST_HEADS),
    "encoder_ffn_dim": (1, 4 * LARGEST_WIDTH),
    "decoder_ffn_dim": (1, 4 * LARGEST_WIDTH),
    "vocab_size": (2, LARGEST_VOCABULARY),
    "max_position_embeddings": (2, LARGEST_WIDTH),
}
MARIAN, M2M100, MBART = "marian", "m2m_100", "mbart"
# Options that Acre knows with one value only, which is also the default of the configuration.
TIED = {"tie_word_embeddings": True, "is_encoder_decoder": True}
FLAGS = {
    MARIAN: TIED | {"static_position_embeddings": True, "normalize_before": False,
                    "normalize_embedding": False, "add_final_layer_norm": False},
    M2M100: TIED,
    MBART: TIED | {"static_position_embeddings": False, "normalize_before": True,
                   "normalize_embedding": True, "add_final_layer_norm": True,
                   "add_bias_logits": False},
}
UNUSED_POSITIONS = 2  # rows of mBART's tables before that of the first token
SHARED = "model.shared.weight"
OWN = {side: f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")}
BIAS = "final_logits_bias"


def check_integer(name, config, key, least, most):
    value = config.get(key)
    if value is None:
        raise missing(f"{name}: {key}", f"an integer from {least} to {most}")
    if type(value) is not int or not least <= value <= most:
        raise unlike(f"{name}: {key}", f"an integer from {least} to {most}", shown(value))
    return value


def check_config(name, config):
    """Refuses what Acre does not compute, and sizes that are none."""
    if config.get("model_type") not in FLAGS:
        raise unlike(f"{name}: model_type", '"marian", "m2m_100" or "mbart"',
                     shown(config.get("model_type")))
    for key, (least, most) in SIZES.items():
        check_integer(name, config, key, least, most)
    for key in ("encoder_attention_heads", "decoder_attention_heads"):
        if config["d_model"] % config[key]:
            raise unlike(f"{name}: {key}", f"a divisor of d_model, which is {config['d_model']}",
                         shown(config[key]))
    if config.get("activation_function") not in ACTIVATIONS:
        raise unlike(f"{name}: activation_function", "relu, swish, silu or gelu",
                     shown(config.get("activation_function")))
    check_vocabularies(name, config)
    for key, wanted in FLAGS[config["model_type"]].items():
        found = config.get(key)
        if found is not None and found is not wanted:
            raise unlike(f"{name}: {key}", shown(wanted), f"{shown(found)}, which Acre does not "
                         "compute")


def check_vocabularies(name, config):
    if config.get("decoder_vocab_size") is None:
        return
    size = check_integer(name, config, "decoder_vocab_size", 2, LARGEST_VOCABULARY)
    if is_shared(config) and size != config["vocab_size"]:
        raise unlike(f"{name}: decoder_vocab_size", f"vocab_size, which is {config['vocab_size']}, "
                     "as the embeddings are shared", shown(size))


def is_shared(config):
    """Whether source and target have one embedding; null and absence mean yes, as in Acre."""
    if config["model_type"] != MARIAN:
        return True
    return config.get("share_encoder_decoder_embeddings") is not False


def layer_shapes(prefix, d_model, inner, attentions):
    for attention in attentions:
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield f"{prefix}.{attention}.{projection}.weight", (d_model, d_model)
            yield f"{prefix}.{attention}.{projection}.bias", (d_model,)
        yield f"{prefix}.{attention}_layer_norm.weight", (d_model,)
        yield f"{prefix}.{attention}_layer_norm.bias", (d_model,)
    yield f"{prefix}.fc1.weight", (inner, d_model)
    yield f"{prefix}.fc1.bias", (inner,)
    yield f"{prefix}.fc2.weight", (d_model, inner)
    yield f"{prefix}.fc2.bias", (d_model,)
    yield f"{prefix}.final_layer_norm.weight", (d_model,)
    yield f"{prefix}.final_layer_norm.bias", (d_model,)


def side_shapes(side, config):
    """What stands before and after the layers of a side."""
    norms = {MARIAN: [], M2M100: ["layer_norm"], MBART: ["layernorm_embedding", "layer_norm"]}
    for norm in norms[config["model_type"]]:
        for part in ("weight", "bias"):
            yield f"model.{side}.{norm}.{part}", (config["d_model"],)
    if config["model_type"] == MBART:
        n = config["max_position_embeddings"] + UNUSED_POSITIONS
        yield f"model.{side}.embed_positions.weight", (n, config["d_model"])


def shapes_of(config):
    """Name -> shape of every tensor of the model."""
    d_model, vocabulary = config["d_model"], config["vocab_size"]
    target = config.get("decoder_vocab_size") or vocabulary
    shapes = {SHARED: (vocabulary, d_model)}
    if not is_shared(config):
        shapes = {OWN["encoder"]: (vocabulary, d_model), OWN["decoder"]: (target, d_model)}
    if config["model_type"] != M2M100:
        shapes[BIAS] = (1, target)
    sides = {"encoder": ["self_attn"], "decoder": ["self_attn", "encoder_attn"]}
    for side, attentions in sides.items():
        for i in range(config[f"{side}_layers"]):
            shapes |= layer_shapes(f"model.{side}.layers.{i}", d_model,
                                   config[f"{side}_ffn_dim"], attentions)
        shapes |= side_shapes(side, config)
    return shapes
