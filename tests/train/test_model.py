"""The model against transformers' MarianMT and M2M100 on the same weights, and against itself."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from models.train.area import coverage  # noqa: E402
from models.train.card import attention_in_words  # noqa: E402
from models.train.export import model_config  # noqa: E402
from models.train.model import Attention, Transformer  # noqa: E402
from models.train.recipe import find_recipe, read_recipe  # noqa: E402
from models.train.rules import AreaRule  # noqa: E402
from models.train.search import greedy_ids  # noqa: E402
from models.train.shape import PRESETS, shape_of, source_multiple  # noqa: E402

SIZE = 60
IDS = {"post": (59, 0), "pre": (1, 2)}  # pad and end, in the layout that goes with the norms
FIRST, LAST = 3, 58  # what neither is
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])
DEEP = {"encoder_layers": 5, "decoder_layers": 1, "width": 48, "heads": 3, "inner": 80}
AREAS = [
    "regular", "eq3", "eq9",
    {"key": "max", "value": "max"},
    {"key": "sum", "value": "mean", "weights": "sigmoid"},
    {"key": "sample_concat", "temperature": 2.0, "top_k": 5},
    {"top_k": 3, "encoder_self": {"width": [1, 3], "key": "max_concat"},
     "decoder_self": {"width": [4, 1], "weights": "sigmoid"},
     "decoder_cross": {"width": [2, 5], "value": "max"}},
]


def small_model(area, norm="post", preset="tiny"):
    torch.manual_seed(3)
    model = Transformer(shape_of(preset, 0.0, area, norm=norm), SIZE, *IDS[norm]).eval()
    if norm == "post":
        torch.nn.init.normal_(model.final_logits_bias)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.LayerNorm):
            torch.nn.init.normal_(layer.bias, std=0.3)
    model.reserve(64)
    return model


def batch(norm="post"):
    pad, _ = IDS[norm]
    source = torch.randint(FIRST, LAST + 1, (4, 9))
    source[1, 5:], source[3, 2:] = pad, pad
    return source, torch.randint(FIRST, LAST + 1, (4, 7))


def published_with(weights, norm, preset):
    """transformers' model with the weights and the config.json of ours."""
    transformers = pytest.importorskip("transformers")
    kind = {"post": transformers.MarianMTModel,
            "pre": transformers.M2M100ForConditionalGeneration}[norm]
    recipe = dataclasses.replace(read_recipe(find_recipe("en-de-token")), start_from=None,
                                 preset=preset, area="regular", norm=norm, dropout=0.0)
    pad, end = IDS[norm]
    vocabulary = type("Vocabulary", (), {"size": SIZE, "pad": pad, "end": end})
    values = model_config(recipe, vocabulary)
    assert kind.config_class.model_type == values["model_type"]
    assert [kind.__name__] == values["architectures"]
    model = kind(kind.config_class(**values)).eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("embed" in name or name == "lm_head.weight" for name in missing)
    model.tie_weights()
    return model.float()


@torch.no_grad()
@NORMS
@pytest.mark.parametrize("preset", ["tiny", DEEP], ids=["tiny", "deep"])
def test_width_one_is_the_published_model(preset, norm):
    """Logits are equal, and greedy translations with the exported defaults."""
    model = small_model("regular", norm, preset)
    published = published_with(model.state_dict(), norm, preset)
    source, target = batch(norm)
    pad, end = IDS[norm]
    mask = (source != pad).long()
    expected = published(input_ids=source, attention_mask=mask,
                         decoder_input_ids=model.inputs(target)).logits
    torch.testing.assert_close(model(source, target), expected, rtol=1e-4, atol=1e-4)
    found = published.generate(source, attention_mask=mask, max_new_tokens=12, do_sample=False,
                               bad_words_ids=[[pad]], forced_eos_token_id=None).tolist()
    for ours, (start, *theirs) in zip(greedy_ids(model, source, end, 12), found, strict=True):
        assert start == model.start
        assert ours == [i for i in theirs if i not in (pad, end)]


@torch.no_grad()
@NORMS
@pytest.mark.parametrize("area", AREAS, ids=str)
def test_greedy_search_follows_the_full_pass(area, norm):
    """Each token of the step-by-step search is the best one of the whole-sentence pass."""
    model = small_model(area, norm)
    source, _ = batch(norm)
    pad, end = IDS[norm]
    for row, ids in zip(source, greedy_ids(model, source, end, 12)):
        alone = row[row != pad][None]
        logits = model(alone, torch.tensor([ids + [end]]))[0]
        logits[:, pad] = -torch.inf
        assert logits.argmax(-1)[: len(ids)].tolist() == ids


@torch.no_grad()
@NORMS
@pytest.mark.parametrize("area", AREAS, ids=str)
def test_padding_changes_nothing(area, norm):
    model = small_model(area, norm)
    source, target = batch(norm)
    alone = model(source[1:2, :5], target[1:2])
    torch.testing.assert_close(model(source, target)[1:2], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("preset, inner, eq3, eq9", [
    ("tiny", 512, [5, 5], [5, 5]),
    ("small", 1024, [5, 5], [5, 5]),
    ("base", 2048, [4, 1, 1, 1, 1, 1], [4, 4, 1, 1, 1, 1]),
    ("big-en-de", 4096, [4, 1, 1, 1, 1, 1], [3, 1, 1, 1, 1, 1]),
    ("big-en-fr", 8192, [3, 3, 1, 1, 1, 1], [4, 1, 1, 1, 1, 1]),
])
def test_presets_are_the_published_ones(preset, inner, eq3, eq9):
    for area, key, widths in (("eq3", "mean", eq3), ("eq9", "concat", eq9)):
        shape = shape_of(preset, area=area)
        rules = tuple(AreaRule(w, key) if w > 1 else AreaRule() for w in widths)
        assert shape.encoder_self == shape.decoder_self == shape.decoder_cross == rules
    assert shape.inner == inner
    assert {name for name in PRESETS if not name.startswith("lstm")} == {
        "tiny", "small", "base", "big-en-de", "big-en-fr"}


def test_regular_attention_needs_no_section():
    ones = {"width": [1, 1]}
    explicit = {"encoder_self": ones, "decoder_self": ones, "decoder_cross": ones}
    for area in ("regular", explicit):
        shape = shape_of("small", area=area)
        assert shape.area is None and shape.decoder_cross == (AreaRule(), AreaRule())


def test_section_of_a_recipe():
    section = {"key": "max", "temperature": 2.0, "weights": "sigmoid",
               "decoder_self": {"width": [1, 3], "key": "mean", "weights": "softmax"}}
    shape = shape_of("tiny", area=section)
    assert shape.encoder_self == (AreaRule(5, "max", weights="sigmoid", temperature=2.0),) * 2
    assert shape.decoder_self == (AreaRule(), AreaRule(3, temperature=2.0))
    assert shape.area["decoder_cross"] == {"width": [5, 5]}


def test_grids_of_a_recipe():
    section = {"key": "max",
               "encoder_self": {"memory_height": 4, "height": [2, 1], "width": [1, 1]},
               "decoder_cross": {"memory_height": 6, "height": [1, 3]}}
    shape = shape_of("tiny", area=section)
    assert shape.encoder_self == (AreaRule(1, "max", height=2, memory_height=4), AreaRule())
    assert shape.decoder_self == (AreaRule(5, "max"),) * 2
    assert shape.decoder_cross == tuple(
        AreaRule(5, "max", height=height, memory_height=6) for height in (1, 3))
    assert shape.area["encoder_self"] == section["encoder_self"]
    assert shape.area["decoder_cross"] == {"width": [5, 5]} | section["decoder_cross"]
    assert source_multiple(shape) == 12


@pytest.mark.parametrize("preset", ["tiny", "lstm-256"])
@pytest.mark.parametrize("area", ["regular", "eq3", {"decoder_cross": {"memory_height": 1}}],
                         ids=str)
def test_lines_have_any_length(preset, area):
    assert source_multiple(shape_of(preset, area=area)) == 1


@pytest.mark.parametrize("area, message", [
    ("eq4", "area: expected regular, eq3, eq9 or an object, found 'eq4'"),
    ({"keys": "max"}, "area: expected one of key, .*, found keys"),
    ({"key": "median"}, "area.key: expected one of mean, .*, found 'median'"),
    ({"encoder_self": {"value": "min"}}, "area.encoder_self.value: expected one of .*'min'"),
    ({"decoder_self": {"width": [5]}}, r"area.decoder_self.width: expected 2 integers .*\[5\]"),
    ({"decoder_self": {"width": [5, 17]}}, "decoder_self.width: expected .* from 1 to 16"),
    ({"decoder_cross": 5}, "area.decoder_cross: expected an object, found 5"),
    ({"encoder_self": {"height": [2]}}, r"encoder_self.height: expected 2 integers .* \[2\]"),
    ({"encoder_self": {"height": [1, 9]}}, "encoder_self.height: expected .* from 1 to 8, one per"),
    ({"decoder_self": {"height": [1, 2]}}, "decoder_self.height: expected 1 in each layer, as"),
    ({"encoder_self": {"height": [2, 1]}},
     r"area.encoder_self.height: expected 1 in each layer, as the memory is a line .*\[2, 1\]"),
    ({"decoder_cross": {"height": [1, 2], "memory_height": 1}},
     "area.decoder_cross.height: expected 1 in each layer, as the memory is a line"),
    ({"decoder_self": {"memory_height": 2}},
     "area.decoder_self.memory_height: expected 1, as this memory cannot be a grid, found 2"),
    ({"decoder_cross": {"memory_height": 0}},
     "area.decoder_cross.memory_height: expected an integer from 1 to 65536, found 0"),
    ({"decoder_cross": {"memory_height": [4]}}, r"memory_height: expected an integer .* \[4\]"),
    ({"memory_height": 4}, "area: expected one of key, .*, found memory_height"),
    ({"top_k": -1}, "area.top_k: expected an integer from 0 to 65536, found -1"),
    ({"temperature": 0}, "area.temperature: expected a number from 0.01 to 100, found 0"),
])
def test_wrong_ways_of_using_areas_are_errors(area, message):
    with pytest.raises(ValueError, match=message):
        shape_of("tiny", area=area)


def test_parameters_of_combined_keys():
    names = {"height_embedding.weight": (1, 16), "width_embedding.weight": (5, 16),
             "fc1.weight": (32, 96), "fc1.bias": (32,), "fc2.weight": (32, 32), "fc2.bias": (32,)}
    attentions = [f"{side}.layers.{i}.{attention}" for i in (0, 1) for side, attention in (
        ("encoder", "self_attn"), ("decoder", "self_attn"), ("decoder", "encoder_attn"))]
    found = {name: tuple(weight.shape) for name, weight in small_model("eq9").state_dict().items()
             if ".area." in name}
    assert found == {f"model.{attention}.area.{name}": shape
                     for attention in attentions for name, shape in names.items()}


@pytest.mark.parametrize("key, inputs", [("max_concat", 64), ("sum", 32), ("sample_concat", 64),
                                         ("sample_sum", 32)])
def test_inputs_of_combined_keys(key, inputs):
    area = small_model({"key": key}).model.encoder.layers[0].self_attn.area
    assert area.fc1.weight.shape == (32, inputs)


@NORMS
@pytest.mark.parametrize("area", [*AREAS, {"key": "sample"}, {"key": "sample_sum"}], ids=str)
def test_models_learn(area, norm):
    """A few steps on one batch lower the loss, and every parameter but fc2's bias has moved."""
    model = small_model(area, norm).train()
    source, target = batch(norm)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses = []
    for _ in range(8):
        loss = torch.nn.functional.cross_entropy(model(source, target).flatten(0, 1),
                                                 target.flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    still = {name for name, p in model.named_parameters() if torch.equal(p, before[name])}
    assert all(name.endswith("area.fc2.bias") for name in still)


@NORMS
def test_pad_embedding_is_zero(norm):
    model = small_model("eq3", norm)
    assert not model.model.shared.weight[model.pad].any()


@pytest.mark.parametrize("rule, items", [
    (AreaRule(), 1), (AreaRule(5), 3), (AreaRule(5, "concat"), 3), (AreaRule(3, height=2), 3),
    (AreaRule(5, value="mean"), 1), (AreaRule(5, value="max"), 1)])
def test_sums_over_areas_start_as_large_as_single_items(rule, items):
    """A coverage of like scores sums to the items that are expected (away from both ends), and the
    output projection starts with weights that much smaller."""
    shape = shape_of("tiny", 0.0)
    plain, ours = (Attention(shape, r).out_proj.weight.abs().max() for r in (AreaRule(), rule))
    assert (plain / ours).item() == pytest.approx(items, rel=0.02)
    if rule.value == "sum" and rule.height == 1 and rule.key == "mean":
        weights = coverage(torch.zeros(400), rule.width)
        assert weights.sum().item() == pytest.approx(items, rel=0.02)


def test_a_recipe_says_how_large_attention_with_areas_starts():
    """One without areas starts as ever."""
    area = {"key": "max", "value": "max", "encoder_self": {"width": [1, 5]}}

    def begun(start):
        torch.manual_seed(3)
        return Transformer(shape_of("tiny", area=area, area_start=start), SIZE, *IDS["post"])

    plain, ours = begun(None), begun(4)
    for layer, factor in enumerate((1, 4)):
        theirs, found = (model.model.encoder.layers[layer].self_attn.out_proj.weight
                         for model in (plain, ours))
        torch.testing.assert_close(found * factor, theirs)
    theirs, found = (model.model.decoder.layers[0].encoder_attn.out_proj.weight
                     for model in (plain, ours))
    torch.testing.assert_close(found * 4, theirs)


def test_one_seed_gives_all_kinds_of_attention_the_same_values():
    """All but what only areas have, and but for the size of what they give."""
    def begun(area):
        torch.manual_seed(3)
        model = Transformer(shape_of("tiny", area=area), SIZE, *IDS["post"])
        return model.state_dict(), torch.rand(4)

    regular, after = begun("regular")
    for area in ("eq3", "eq9"):
        found, own_after = begun(area)
        assert torch.equal(own_after, after)
        for name, values in regular.items():
            scale = 3 if name.endswith("out_proj.weight") else 1
            torch.testing.assert_close(found[name] * scale, values)
        own = [values for name, values in found.items() if name.endswith("area.fc1.weight")]
        assert len({values.sum().item() for values in own}) == len(own)


def test_sizes_of_a_recipe():
    """Deep encoder, shallow decoder; areas everywhere unless the section says otherwise."""
    shape = shape_of(DEEP, norm="pre")
    assert (shape.encoder_layers, shape.decoder_layers) == (5, 1)
    assert (shape.width, shape.heads, shape.inner, shape.norm) == (48, 3, 80, "pre")
    assert shape.encoder_self == (AreaRule(5),) * 5 and shape.decoder_cross == (AreaRule(5),)
    section = {"encoder_self": {"width": [1, 2, 3, 4, 5]}, "decoder_cross": {"width": [7]}}
    shape = shape_of(DEEP, area=section)
    assert [rule.width for rule in shape.encoder_self] == [1, 2, 3, 4, 5]
    assert shape.area["decoder_self"] == {"width": [5]}


@pytest.mark.parametrize("preset, norm, message", [
    ({"width": 48}, "pre", "preset: expected encoder_layers, .*, inner, found width"),
    ({"layers": 2} | DEEP, "pre", "preset: expected encoder_layers, .*, found layers, encoder"),
    (DEEP | {"encoder_layers": 65}, "pre", "preset.encoder_layers: .* from 1 to 64, found 65"),
    (DEEP | {"width": "48"}, "pre", "preset.width: expected an integer from 1 to .*'48'"),
    (DEEP | {"width": 51}, "pre", r"preset.width: expected a multiple of 2 \* 3 heads, found 51"),
    ("small", "Pre", "norm: expected post or pre, found 'Pre'"),
    ("lstm-256", "pre", "norm: expected post with LSTMs, which have none, found pre"),
])
def test_wrong_sizes_are_errors(preset, norm, message):
    with pytest.raises(ValueError, match=message):
        shape_of(preset, norm=norm)


def test_card_says_what_attention_the_model_has():
    two_widths = {"key": "mean", "decoder_cross": {"width": [3, 1]}}
    words = {name: attention_in_words(shape_of("tiny", area=area)) for name, area in
             {"regular": "regular", "eq3": "eq3", "eq9": "eq9", "two": two_widths}.items()}
    paper = "area attention (Li et al., *Area Attention*, ICML 2019"
    assert words == {
        "regular": "regular attention",
        "eq3": f"{paper}; Eq. 3; areas of up to 5 in every layer)",
        "eq9": f"{paper}; keys of several features, Eq. 9; areas of up to 5 in every layer)",
        "two": f"{paper}; Eq. 3; areas of up to, layer by layer, 5, 5 in the encoder; 5, 5 in the "
               "decoder; 3, 1 in the decoder's attention to the encoder)",
    }


def test_exported_section_of_the_published_settings():
    widths = {"width": [5, 5]}
    section = {"key": "mean", "value": "sum", "top_k": 0, "temperature": 1.0,
               "encoder_self": widths, "decoder_self": widths, "decoder_cross": widths}
    for key, area in (("mean", "eq3"), ("concat", "eq9")):
        assert list(shape_of("small", area=area).area.items()) == list(
            (section | {"key": key}).items())
