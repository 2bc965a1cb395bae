"""Model sizes and where each uses areas (the paper's Section 4.1 and its appendix)."""

from dataclasses import dataclass, replace
from math import lcm

from .rules import ATTENTIONS, COMBINED_KEYS, AreaRule, area_rules, check_section

MAX_HEADS = 1024  # the engine's bound


@dataclass(frozen=True)
class Preset:
    """A Transformer."""

    attentions = ATTENTIONS  # those that may use areas
    grids = ("encoder_self", "decoder_cross")  # those whose memory may be a grid

    layers: int
    width: int
    heads: int
    inner: int
    eq3: tuple  # keys are means: largest area width, how many layers use it
    eq9: tuple  # keys combine features: likewise

    def widths(self, equation):
        """The largest area width of each layer; 1 is regular attention."""
        width, layers = getattr(self, equation)
        return [width] * layers + [1] * (self.layers - layers)


@dataclass(frozen=True)
class LstmPreset:
    """A model of LSTMs, with attention from the decoder's last layer only."""

    attentions = ("decoder_cross",)
    grids = ()

    width: int  # cells of a layer
    layers: int = 2
    heads: int = 1  # the paper also has 4: the recipe says which

    def widths(self, _):
        return [2]


# The appendix names no layers for Big EN-DE with Eq. 9: taken to be the first, as with Eq. 3.
PRESETS = {
    "tiny": Preset(2, 128, 4, 512, eq3=(5, 2), eq9=(5, 2)),
    "small": Preset(2, 256, 4, 1024, eq3=(5, 2), eq9=(5, 2)),
    "base": Preset(6, 512, 8, 2048, eq3=(4, 1), eq9=(4, 2)),
    "big-en-de": Preset(6, 1024, 16, 4096, eq3=(4, 1), eq9=(3, 1)),
    "big-en-fr": Preset(6, 1024, 16, 8192, eq3=(3, 2), eq9=(4, 1)),
    "lstm-256": LstmPreset(256),
    "lstm-512": LstmPreset(512),
    "lstm-1024": LstmPreset(1024),
}
# What a recipe may say instead of a section. Eq. 9 is the authors' "concat".
EQUATIONS = {"eq3": {"key": "mean"}, "eq9": {"key": "concat"}}


@dataclass(frozen=True)
class Shape:
    """Of a Transformer."""

    width: int
    heads: int
    inner: int
    dropout: float
    area: dict | None  # the section of config.json; None: regular attention everywhere
    encoder_self: tuple  # the AreaRule of each layer
    decoder_self: tuple
    decoder_cross: tuple

    @property
    def layers(self):
        return len(self.encoder_self)

    @property
    def rules(self):
        return *self.encoder_self, *self.decoder_self, *self.decoder_cross


@dataclass(frozen=True)
class LstmShape:
    width: int
    heads: int
    layers: int
    dropout: float
    area: dict | None
    decoder_cross: tuple  # the AreaRule of the one attention

    @property
    def rules(self):
        return self.decoder_cross


def area_section(preset, area):
    """A section of a recipe, or what an equation's name stands for, with everything filled in.

    Widths that are left out are those published: for Eq. 9 where keys combine features, else for
    Eq. 3.
    """
    area = EQUATIONS.get(area, area) if isinstance(area, str) else area
    if not isinstance(area, dict):
        raise ValueError(f"area: expected regular, {', '.join(EQUATIONS)} or an object, "
                         f"found {area!r}")
    check_section(area, len(preset.widths("eq3")), preset.attentions, preset.grids)
    section = {"key": "mean", "value": "sum", "top_k": 0, "temperature": 1.0} | area
    widths = preset.widths("eq9" if section["key"] in COMBINED_KEYS else "eq3")
    return section | {name: {"width": widths} | area.get(name, {}) for name in preset.attentions}


def with_heads(preset, heads):
    """The preset with the heads of a recipe, which says how many only for LSTMs."""
    if heads is None:
        return preset
    if not isinstance(preset, LstmPreset):
        raise ValueError(f"heads: expected only with an LSTM preset; this one has {preset.heads}")
    if type(heads) is not int or not 1 <= heads <= MAX_HEADS:
        raise ValueError(f"heads: expected an integer from 1 to {MAX_HEADS}, found {heads!r}")
    return replace(preset, heads=heads)


def shape_of(preset, dropout=0.1, area="eq3", heads=None):
    """The preset's shape with what a recipe says of areas and heads."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; there are {', '.join(PRESETS)}")
    sizes = with_heads(PRESETS[preset], heads)
    section, rules = None, [(AreaRule(),) * len(sizes.widths("eq3"))] * len(sizes.attentions)
    if area != "regular":
        section = area_section(sizes, area)
        rules = [area_rules(section, name) for name in sizes.attentions]
    if all(rule == AreaRule() for layers in rules for rule in layers):
        section = None
    if isinstance(sizes, LstmPreset):
        return LstmShape(sizes.width, sizes.heads, sizes.layers, dropout, section, *rules)
    return Shape(sizes.width, sizes.heads, sizes.inner, dropout, section, *rules)


def source_multiple(shape):
    """What a sentence's number of source ids, end included, is a multiple of.

    A memory that is a grid has whole rows. It also has no padding.
    """
    section = shape.area or {}
    return lcm(*(section[name].get("memory_height", 1) for name in ATTENTIONS if name in section))
