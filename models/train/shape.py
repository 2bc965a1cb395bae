"""Model sizes and where each uses areas (the paper's Section 4.1 and its appendix, Eq. 3)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    inner: int
    dropout: float
    encoder_self: tuple  # largest area width of each layer; 1 is regular attention
    decoder_self: tuple
    decoder_cross: tuple


# preset: (layers, width, heads, inner width, area width, layers that use it)
PRESETS = {
    "tiny": (2, 128, 4, 512, 5, 2),
    "small": (2, 256, 4, 1024, 5, 2),
    "base": (6, 512, 8, 2048, 4, 1),
    "big": (6, 1024, 16, 4096, 4, 1),
}


def shape_of(preset, dropout=0.1, area_width=None):
    """The preset's shape; `area_width` replaces the published width, 1 switches areas off."""
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset}; there are {', '.join(PRESETS)}")
    layers, width, heads, inner, published, area_layers = PRESETS[preset]
    widths = [area_width or published] * area_layers + [1] * (layers - area_layers)
    return Shape(width, heads, inner, dropout, *[tuple(widths)] * 3)
