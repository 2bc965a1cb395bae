"""Model sizes and where each uses areas (the paper's Section 4.1 and its appendix)."""

from dataclasses import dataclass, replace
from math import lcm

from .rules import ATTENTIONS, COMBINED_KEYS, AreaRule, area_rules, check_number, check_section

MAX_HEADS = 1024  # the engine's bound
MAX_LAYERS = 64
MAX_SIZE = 1 << 14
NORMS = ("post", "pre")
PRESET_SIZES = ("encoder_layers", "decoder_layers", "width", "heads", "inner")


@dataclass(frozen=True)
class Preset:
    """A Transformer."""

    attentions = ATTENTIONS  # those that may use areas
    grids = ("encoder_self", "decoder_cross")  # those whose memory may be a grid

    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    inner: int
    eq3: tuple = (5, MAX_LAYERS)  # keys are means: largest area width, how many layers use it
    eq9: tuple = (5, MAX_LAYERS)  # keys combine features: likewise

    def depth(self, attention):
        return self.encoder_layers if attention == "encoder_self" else self.decoder_layers

    def widths(self, equation, attention):
        """The largest area width of each layer; 1 is regular attention."""
        width, first = getattr(self, equation)
        layers = self.depth(attention)
        return ([width] * first + [1] * layers)[:layers]


@dataclass(frozen=True)
class LstmPreset:
    """A model of LSTMs, with attention from the decoder's last layer only."""

    attentions = ("decoder_cross",)
    grids = ()

    width: int  # cells of a layer
    layers: int = 2
    heads: int = 1  # the paper also has 4: the recipe says which

    def depth(self, _):
        return 1

    def widths(self, *_):
        return [2]


# The appendix names no layers for Big EN-DE with Eq. 9: taken to be the first, as with Eq. 3.
PRESETS = {
    "tiny": Preset(2, 2, 128, 4, 512, eq3=(5, 2), eq9=(5, 2)),
    "small": Preset(2, 2, 256, 4, 1024, eq3=(5, 2), eq9=(5, 2)),
    "base": Preset(6, 6, 512, 8, 2048, eq3=(4, 1), eq9=(4, 2)),
    "big-en-de": Preset(6, 6, 1024, 16, 4096, eq3=(4, 1), eq9=(3, 1)),
    "big-en-fr": Preset(6, 6, 1024, 16, 8192, eq3=(3, 2), eq9=(4, 1)),
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
    norm: str  # pre or post: where a sublayer has its norm
    area: dict | None  # the section of config.json; None: regular attention everywhere
    encoder_self: tuple  # the AreaRule of each layer
    decoder_self: tuple
    decoder_cross: tuple
    area_start: float | None = None  # as in a recipe

    def divisor(self, rule):
        """What divides the output projection of an attention before it learns: with areas, what
        the recipe says, or as many items as it adds up then."""
        given = self.area_start if rule.has_areas else None
        return rule.expected_items if given is None else given

    @property
    def encoder_layers(self):
        return len(self.encoder_self)

    @property
    def decoder_layers(self):
        return len(self.decoder_self)

    @property
    def rules(self):
        return *self.encoder_self, *self.decoder_self, *self.decoder_cross


@dataclass(frozen=True)
class LstmShape:
    width: int
    heads: int
    layers: int  # of the encoder, and as many of the decoder
    dropout: float
    area: dict | None
    decoder_cross: tuple  # the AreaRule of the one attention
    area_start: float | None = None  # as in a recipe

    def divisor(self, rule):
        """What divides the part of `a_proj` that reads the context, before it learns: with areas,
        what the recipe says."""
        given = self.area_start if rule.has_areas else None
        return 1 if given is None else given

    @property
    def rules(self):
        return self.decoder_cross

    @property
    def encoder_layers(self):
        return self.layers

    decoder_layers = encoder_layers


def area_section(preset, area):
    """A section of a recipe, or what an equation's name stands for, with everything filled in.

    Widths that are left out are those published: for Eq. 9 where keys combine features, else for
    Eq. 3.
    """
    area = EQUATIONS.get(area, area) if isinstance(area, str) else area
    if not isinstance(area, dict):
        raise ValueError(f"area: expected regular, {', '.join(EQUATIONS)} or an object, "
                         f"found {area!r}")
    layers = {name: preset.depth(name) for name in preset.attentions}
    check_section(area, layers, preset.grids)
    section = {"key": "mean", "value": "sum", "top_k": 0, "temperature": 1.0} | area
    equation = "eq9" if section["key"] in COMBINED_KEYS else "eq3"
    return section | {name: {"width": preset.widths(equation, name)} | area.get(name, {})
                      for name in preset.attentions}


def with_heads(preset, heads):
    """The preset with the heads of a recipe, which says how many only for LSTMs."""
    if heads is None:
        return preset
    if not isinstance(preset, LstmPreset):
        raise ValueError(f"heads: expected only with an LSTM preset; this one has {preset.heads}")
    if type(heads) is not int or not 1 <= heads <= MAX_HEADS:
        raise ValueError(f"heads: expected an integer from 1 to {MAX_HEADS}, found {heads!r}")
    return replace(preset, heads=heads)


def preset_of(preset):
    """What a recipe calls its preset: a name, or the PRESET_SIZES of a Transformer."""
    if not isinstance(preset, dict):
        if preset not in PRESETS:
            raise ValueError(f"unknown preset {preset}; there are {', '.join(PRESETS)}")
        return PRESETS[preset]
    if set(preset) != set(PRESET_SIZES):
        raise ValueError(f"preset: expected {', '.join(PRESET_SIZES)}, found {', '.join(preset)}")
    for key in PRESET_SIZES:
        highest = MAX_LAYERS if key.endswith("layers") else MAX_SIZE
        check_number(preset, key, int, 1, highest, "preset")
    if preset["width"] % (2 * preset["heads"]):
        raise ValueError(f"preset.width: expected a multiple of 2 * {preset['heads']} heads, "
                         f"found {preset['width']}")
    return Preset(**preset)


def shape_of(preset, dropout=0.1, area="eq3", heads=None, norm="post", area_start=None):
    """The preset's shape with what a recipe says of areas, heads and norms."""
    sizes = with_heads(preset_of(preset), heads)
    if norm not in NORMS:
        raise ValueError(f"norm: expected {' or '.join(NORMS)}, found {norm!r}")
    section, rules = None, [(AreaRule(),) * sizes.depth(name) for name in sizes.attentions]
    if area != "regular":
        section = area_section(sizes, area)
        rules = [area_rules(section, name) for name in sizes.attentions]
    if all(rule == AreaRule() for layers in rules for rule in layers):
        section = None
    if isinstance(sizes, LstmPreset):
        if norm != NORMS[0]:
            raise ValueError(f"norm: expected {NORMS[0]} with LSTMs, which have none, found {norm}")
        return LstmShape(sizes.width, sizes.heads, sizes.layers, dropout, section, *rules,
                         area_start)
    return Shape(sizes.width, sizes.heads, sizes.inner, dropout, norm, section, *rules, area_start)


def source_multiple(shape):
    """What a sentence's number of source ids, end included, is a multiple of.

    A memory that is a grid has whole rows. It also has no padding.
    """
    section = shape.area or {}
    return lcm(*(section[name].get("memory_height", 1) for name in ATTENTIONS if name in section))
