"""Model sizes and where each uses areas (the paper's Section 4.1 and its appendix)."""

from dataclasses import dataclass

from .rules import ATTENTIONS, COMBINED_KEYS, AreaRule, area_rules, check_section


@dataclass(frozen=True)
class Preset:
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


# The appendix names no layers for Big EN-DE with Eq. 9: taken to be the first, as with Eq. 3.
PRESETS = {
    "tiny": Preset(2, 128, 4, 512, eq3=(5, 2), eq9=(5, 2)),
    "small": Preset(2, 256, 4, 1024, eq3=(5, 2), eq9=(5, 2)),
    "base": Preset(6, 512, 8, 2048, eq3=(4, 1), eq9=(4, 2)),
    "big-en-de": Preset(6, 1024, 16, 4096, eq3=(4, 1), eq9=(3, 1)),
    "big-en-fr": Preset(6, 1024, 16, 8192, eq3=(3, 2), eq9=(4, 1)),
}
# What a recipe may say instead of a section. Eq. 9 is the authors' "concat".
EQUATIONS = {"eq3": {"key": "mean"}, "eq9": {"key": "concat"}}


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    inner: int
    dropout: float
    area: dict | None  # the section of config.json; None: regular attention everywhere
    encoder_self: tuple  # the AreaRule of each layer
    decoder_self: tuple
    decoder_cross: tuple


def area_section(preset, area):
    """A section of a recipe, or what an equation's name stands for, with everything filled in.

    Widths that are left out are those published: for Eq. 9 where keys combine features, else for
    Eq. 3.
    """
    area = EQUATIONS.get(area, area) if isinstance(area, str) else area
    if not isinstance(area, dict):
        raise ValueError(f"area: expected regular, eq3, eq9 or an object, found {area!r}")
    check_section(area, preset.layers)
    section = {"key": "mean", "value": "sum", "top_k": 0, "temperature": 1.0} | area
    widths = preset.widths("eq9" if section["key"] in COMBINED_KEYS else "eq3")
    return section | {name: {"width": widths} | area.get(name, {}) for name in ATTENTIONS}


def shape_of(preset, dropout=0.1, area="eq3"):
    """The preset's shape with what a recipe says of areas."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; there are {', '.join(PRESETS)}")
    sizes = PRESETS[preset]
    section, rules = None, [(AreaRule(),) * sizes.layers] * len(ATTENTIONS)
    if area != "regular":
        section = area_section(sizes, area)
        rules = [area_rules(section, name) for name in ATTENTIONS]
    if all(rule == AreaRule() for layers in rules for rule in layers):
        section = None
    return Shape(sizes.width, sizes.heads, sizes.inner, dropout, section, *rules)
