"""What each attention makes of areas, in the words of config.json's `area` (models/README.md)."""

from dataclasses import dataclass

# These and the other bounds are those of the engine.
MAX_WIDTH = 16
MAX_HEIGHT = 8
MAX_MEMORY_HEIGHT = 65536
# Keys of two dense layers over several features (Eq. 9).
COMBINED_KEYS = ("concat", "max_concat", "sum", "sample_concat", "sample_sum")
CHOICES = {
    "key": ("mean", "max", "sample", *COMBINED_KEYS),
    "value": ("sum", "mean", "max"),
    "weights": ("softmax", "sigmoid"),
}
ATTENTIONS = ("encoder_self", "decoder_self", "decoder_cross")
AREA_KEYS = ("width", "height", "memory_height")


@dataclass(frozen=True)
class AreaRule:
    """What one attention layer makes of areas. Of single items, only `weights` matters."""

    width: int = 1  # of the largest areas
    key: str = "mean"
    value: str = "sum"
    weights: str = "softmax"
    temperature: float = 1.0
    top_k: int = 0
    height: int = 1  # of the largest areas
    memory_height: int = 1  # rows of the grid that the memory is; 1: a line

    @property
    def expected_items(self):
        """How many items an attention adds up before it has learnt anything: all areas are alike
        then, and where values are sums an item counts as often as there are areas that hold it."""
        return (self.width + 1) * (self.height + 1) / 4 if self.value == "sum" else 1

    @property
    def has_areas(self):
        return max(self.width, self.height) > 1

    @property
    def combines(self):
        return self.key in COMBINED_KEYS


def place(key, where):
    """Where a value stands, in words; `where` is empty for keys that are in nothing else."""
    return f"{where}.{key}" if where else key


def check_keys(values, known, where):
    if not isinstance(values, dict):
        raise ValueError(f"{where}: expected an object, found {values!r}")
    for key in values:
        if key not in known:
            raise ValueError(f"{where}: expected one of {', '.join(known)}, found {key}")


def check_choices(values, where):
    for key, words in CHOICES.items():
        if values.get(key, words[0]) not in words:
            raise ValueError(
                f"{where}.{key}: expected one of {', '.join(words)}, found {values[key]!r}")


def check_number(values, key, kinds, lowest, highest, where):
    value = values.get(key, lowest)
    if not isinstance(value, kinds) or isinstance(value, bool) or not lowest <= value <= highest:
        kind = "an integer" if kinds is int else "a number"
        raise ValueError(f"{place(key, where)}: expected {kind} from {lowest} to {highest}, "
                         f"found {value!r}")


def check_layers(values, key, layers, highest, where):
    sizes = values.get(key, [1] * layers)
    if (not isinstance(sizes, list) or len(sizes) != layers
            or any(type(size) is not int or not 1 <= size <= highest for size in sizes)):
        integers = "integer" if layers == 1 else "integers"
        raise ValueError(f"{where}.{key}: expected {layers} {integers} from 1 to {highest}, "
                         f"one per layer, found {sizes!r}")


def check_heights(values, layers, may_be_grid, where):
    """Areas may be higher than a grid, but heights of a line are a mistake."""
    rows = values.get("memory_height", 1)
    if may_be_grid:
        check_number(values, "memory_height", int, 1, MAX_MEMORY_HEIGHT, where)
    elif type(rows) is not int or rows != 1:
        raise ValueError(f"{where}.memory_height: expected 1, as this memory cannot be a grid, "
                         f"found {rows!r}")
    check_layers(values, "height", layers, MAX_HEIGHT, where)
    if rows == 1 and max(values.get("height", [1])) > 1:
        raise ValueError(f"{where}.height: expected 1 in each layer, as the memory is a line "
                         f"(memory_height is 1), found {values['height']!r}")


def check_section(section, layers, grids):
    """Raises ValueError at the first thing that the engine would not take.

    `layers` says how many layers have each attention of the model; `grids` are those attentions
    whose memory may be a grid.
    """
    check_keys(section, (*CHOICES, "top_k", "temperature", *layers), "area")
    check_choices(section, "area")
    check_number(section, "top_k", int, 0, 65536, "area")
    check_number(section, "temperature", (int, float), 0.01, 100, "area")
    for name, count in layers.items():
        values, where = section.get(name, {}), f"area.{name}"
        check_keys(values, (*AREA_KEYS, *CHOICES), where)
        check_choices(values, where)
        check_layers(values, "width", count, MAX_WIDTH, where)
        check_heights(values, count, name in grids, where)


def area_rules(section, name):
    """The AreaRule of each layer of one attention, from a section that has all widths."""
    chosen = {key: where[key]
              for where in (section, section[name]) for key in CHOICES if key in where}
    numbers = {key: section[key] for key in ("temperature", "top_k") if key in section}
    numbers["memory_height"] = section[name].get("memory_height", 1)
    widths = section[name]["width"]
    heights = section[name].get("height", [1] * len(widths))
    of_items = AreaRule(weights=chosen.get("weights", "softmax"))
    return tuple(AreaRule(width, height=height, **chosen, **numbers)
                 if max(width, height) > 1 else of_items
                 for width, height in zip(widths, heights))
