"""The model that a run starts from, as far as its config.json tells: whether its layers fit, and
how its areas differ.

What does not fit is found before any text is read.
"""

from pathlib import Path

from .files import read_json
from .rules import area_rules
from .shape import LstmShape

MODEL_TYPES = {"pre": "m2m_100", "post": "marian"}
# The output projection of each attention of a Transformer, by its layer.
OUTPUTS = {"encoder_self": "model.encoder.layers.{}.self_attn.out_proj.weight",
           "decoder_self": "model.decoder.layers.{}.self_attn.out_proj.weight",
           "decoder_cross": "model.decoder.layers.{}.encoder_attn.out_proj.weight"}


LAYERS = "encoder_layers", "decoder_layers"


def check_there(key, folder):
    """Raises FileNotFoundError if what a recipe names under the key is no model."""
    if not (Path(folder) / "config.json").exists():
        raise FileNotFoundError(f"{key}: expected a model in {folder}, found no config.json there")


def read_config(folder):
    path = Path(folder) / "config.json"
    config = read_json(path)
    for key in LAYERS:
        found = config.get(key) if isinstance(config, dict) else None
        if type(found) is not int:
            raise ValueError(f"{path}: {key}: expected an integer, found {found!r}")
    return config


def expected_keys(shape):
    """What config.json says of a model whose layers a run of this shape can take. Layers of a
    Transformer may be fewer or more; of other heads tensors would be just as large."""
    if isinstance(shape, LstmShape):
        return {"model_type": "acre-lstm", "d_model": shape.width,
                "encoder_layers": shape.layers, "decoder_layers": shape.layers,
                "decoder_attention_heads": shape.heads}
    return {"model_type": MODEL_TYPES[shape.norm], "d_model": shape.width,
            "encoder_ffn_dim": shape.inner, "decoder_ffn_dim": shape.inner,
            "encoder_attention_heads": shape.heads, "decoder_attention_heads": shape.heads}


def rules_of(config, attentions):
    """{attention: the AreaRule of each layer} as config.json says; without a width, of items."""
    layers = {"encoder_self": config["encoder_layers"], "decoder_self": config["decoder_layers"],
              "decoder_cross": 1 if config["model_type"] == "acre-lstm"
              else config["decoder_layers"]}
    section = config.get("area") or {}
    whole = section | {name: {"width": [1] * layers[name]} | section.get(name, {})
                       for name in attentions}
    return {name: area_rules(whole, name) for name in attentions}


def rules_beside(shape, config):
    """(attention, layer, its AreaRule, the parent's) of every layer that both have."""
    attentions = [name for name in OUTPUTS if hasattr(shape, name)]
    for name, given in rules_of(config, attentions).items():
        for layer, (own, theirs) in enumerate(zip(getattr(shape, name), given)):
            yield name, layer, own, theirs


def check_parent(shape, folder):
    """Raises ValueError at the first thing of the model in `folder` that a run of this shape cannot
    take."""
    path, config = Path(folder) / "config.json", read_config(folder)
    for key, expected in expected_keys(shape).items():
        if config.get(key) != expected:
            raise ValueError(f"{path}: {key}: expected {expected}, as in the model that starts "
                             f"from it, found {config.get(key)}")
    for name, layer, own, theirs in rules_beside(shape, config):
        wanted, found = ((rule.key, rule.height, rule.width) for rule in (own, theirs))
        if own.combines and wanted != found:  # their dense layers and embeddings are not there
            raise ValueError("{}: area.{}: expected key {}, height {} and width {} in layer {}, "
                             "found {}, {} and {}".format(path, name, *wanted, layer, *found))


def check_pieces(folder):
    """Raises FileNotFoundError if the model in `folder` has no pieces that others could take."""
    path = Path(folder) / "vocab.json"
    if not path.exists():
        raise FileNotFoundError(f"{path}: expected the pieces of pieces_from, found no such file")


def output_scales(shape, folder):
    """{name: factor} of the output projections that would begin larger or smaller than in the
    parent, because areas differ: by how many items an attention adds up before it has learnt
    anything. All areas of LSTMs count as one item, as where they begin at random."""
    if isinstance(shape, LstmShape):
        return {}
    factors = {OUTPUTS[name].format(layer): theirs.expected_items / own.expected_items
               for name, layer, own, theirs in rules_beside(shape, read_config(folder))}
    return {name: factor for name, factor in factors.items() if factor != 1}
