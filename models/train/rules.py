"""What each attention makes of areas, in the words of config.json's `area` (models/README.md)."""

from dataclasses import dataclass

MAX_WIDTH = 16  # this and the other bounds are those of the engine
# Keys of two dense layers over several features (Eq. 9).
COMBINED_KEYS = ("concat", "max_concat", "sum", "sample_concat", "sample_sum")
WORDS = {
    "key": ("mean", "max", "sample", *COMBINED_KEYS),
    "value": ("sum", "mean", "max"),
    "weights": ("softmax", "sigmoid"),
}
ATTENTIONS = ("encoder_self", "decoder_self", "decoder_cross")


@dataclass(frozen=True)
class AreaRule:
    """What one attention layer makes of areas. Where the width is 1, only `weights` matters."""

    width: int = 1
    key: str = "mean"
    value: str = "sum"
    weights: str = "softmax"
    temperature: float = 1.0
    top_k: int = 0

    @property
    def combines(self):
        return self.key in COMBINED_KEYS


def check_keys(values, known, where):
    if not isinstance(values, dict):
        raise ValueError(f"{where}: expected an object, found {values!r}")
    for key in values:
        if key not in known:
            raise ValueError(f"{where}: expected one of {', '.join(known)}, found {key}")


def check_words(values, where):
    for key, words in WORDS.items():
        if values.get(key, words[0]) not in words:
            raise ValueError(
                f"{where}.{key}: expected one of {', '.join(words)}, found {values[key]!r}")


def check_number(values, key, kinds, lowest, highest):
    value = values.get(key, lowest)
    if not isinstance(value, kinds) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(
            f"area.{key}: expected a number from {lowest} to {highest}, found {value!r}")


def check_widths(values, layers, where):
    widths = values.get("width", [1] * layers)
    if (not isinstance(widths, list) or len(widths) != layers
            or any(type(width) is not int or not 1 <= width <= MAX_WIDTH for width in widths)):
        raise ValueError(f"{where}.width: expected {layers} integers from 1 to {MAX_WIDTH}, "
                         f"one per layer, found {widths!r}")


def check_section(section, layers, attentions):
    """Raises ValueError at the first thing that the engine would not take.

    `attentions` are those that the model has, of `layers` layers each.
    """
    check_keys(section, (*WORDS, "top_k", "temperature", *attentions), "area")
    check_words(section, "area")
    check_number(section, "top_k", int, 0, 65536)
    check_number(section, "temperature", (int, float), 0.01, 100)
    for name in attentions:
        values, where = section.get(name, {}), f"area.{name}"
        check_keys(values, ("width", *WORDS), where)
        check_words(values, where)
        check_widths(values, layers, where)


def area_rules(section, name):
    """The AreaRule of each layer of one attention, from a section that has all widths."""
    words = {key: where[key] for where in (section, section[name]) for key in WORDS if key in where}
    numbers = {key: section[key] for key in ("temperature", "top_k") if key in section}
    of_items = {"weights": words.get("weights", "softmax")}
    return tuple(AreaRule(width, **words, **numbers) if width > 1 else AreaRule(**of_items)
                 for width in section[name]["width"])
