"""Models that begin with what others have learnt."""

import dataclasses
import json
import re
import shutil

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train import build, export  # noqa: E402
from models.train.__main__ import main  # noqa: E402
from models.train.files import write_json  # noqa: E402
from models.train.inherit import inherit, inherit_pieces  # noqa: E402
from models.train.parent import check_parent, check_pieces, output_scales  # noqa: E402
from models.train.shape import shape_of  # noqa: E402
from models.train.trainer import Trainer  # noqa: E402
from small import DEEPER_THAN_TINY, RECIPE, of_bytes, train  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_and_quick")


def test_a_run_starts_from_another_model(run, recipe, tmp_path, monkeypatch):
    """Shared pieces keep their embeddings, layers are copied, the rest is as it would be."""
    (run / "checkpoint.pt").unlink(missing_ok=True)
    parent = Trainer(run)
    train(parent, 2)
    parent.evaluate()
    export.export(run, tmp_path / "parent")
    given = {name: w.bfloat16().float() for name, w in parent.average.weights.items()}
    if recipe.level == "token":  # piece 5 has another number, piece 6 is unknown to the parent
        ids = json.loads((tmp_path / "parent" / "vocab.json").read_text())
        names = {number: piece for piece, number in ids.items()}
        ids[names[5]], ids["elsewhere"] = 6, 5
        del ids[names[6]]
        (tmp_path / "parent" / "vocab.json").write_text(json.dumps(ids))
    child = Trainer(run)
    fresh = {name: w.detach().clone() for name, w in child.model.named_parameters()}
    inherit(child.model, child.vocabulary, tmp_path / "parent")
    table = "model.shared.weight"
    for name, weight in child.model.named_parameters():
        expected = given[name].clone()
        if recipe.level == "token" and name == table:
            expected[5], expected[6] = given[table][6], fresh[table][6]
        if recipe.level == "token" and name == "final_logits_bias":
            expected[0, 5], expected[0, 6] = given[name][0, 6], fresh[name][0, 6]
        assert torch.equal(weight, expected), name


def test_pieces_that_the_parent_lacks_begin_as_in_a_second(run, recipe, tmp_path):
    """The second parent has the embeddings of the first turned, so they are known exactly."""
    from safetensors.torch import load_file, save_file

    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "first")
    whole = load_file(tmp_path / "first/model.safetensors")["model.shared.weight"].float()
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    turn = torch.linalg.qr(torch.randn(whole.shape[1], whole.shape[1])).Q
    save_file({"model.shared.weight": whole @ turn}, tmp_path / "second/model.safetensors")
    child = build.new_model(recipe, trainer.vocabulary)
    lost = []
    if recipe.level == "token":
        path = tmp_path / "first/vocab.json"
        ids = json.loads(path.read_text())
        lost = sorted(ids.values())[20:60]
        path.write_text(json.dumps({piece: n for piece, n in ids.items() if n not in lost}))
    known = inherit(child, trainer.vocabulary, tmp_path / "first")
    assert known == trainer.vocabulary.size - len(lost)
    added = inherit_pieces(child, trainer.vocabulary, *(tmp_path / n for n in ("first", "second")))
    assert added == len(lost)
    torch.testing.assert_close(child.model.shared.weight.detach(), whole, atol=1e-4, rtol=1e-3)


def test_too_few_common_pieces_are_refused(run, recipe, tmp_path):
    if recipe.level == "char":
        pytest.skip("all models over bytes have the same")
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    path = tmp_path / "first/vocab.json"
    ids = json.loads(path.read_text())
    path.write_text(json.dumps({piece: n for piece, n in ids.items() if n < 100}))
    with pytest.raises(ValueError, match="expected at least 128 pieces in common .* found 100"):
        inherit_pieces(trainer.model, trainer.vocabulary, *(tmp_path / n
                                                            for n in ("first", "second")))


def test_a_second_parent_without_pieces_is_refused(run, recipe, tmp_path):
    if recipe.level == "char":
        pytest.skip("bytes are no pieces")
    trainer = Trainer(run)
    with pytest.raises(ValueError, match="nowhere: vocab.json: expected pieces of this vocabulary"):
        inherit_pieces(trainer.model, trainer.vocabulary, tmp_path, tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="vocab.json: expected the pieces of pieces_from"):
        check_pieces(tmp_path / "nowhere")


@pytest.mark.parametrize("text, message", [
    ("{", "config.json: expected JSON"),
    ("[]", "config.json: encoder_layers: expected an integer, found None"),
    ('{"encoder_layers": 2, "decoder_layers": "2"}',
     "decoder_layers: expected an integer, found '2'"),
])
def test_what_is_no_parent_is_named(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        check_parent(shape_of("tiny"), tmp_path)


def test_a_parent_of_another_level_gives_its_layers(run, recipe, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    pieces = tmp_path / "parent" / "vocab.json"  # only a token model has it
    pieces.unlink() if recipe.level == "token" else pieces.write_text("{}")
    child = build.new_model(recipe, trainer.vocabulary)
    fresh = child.model.shared.weight.detach().clone()
    assert inherit(child, trainer.vocabulary, tmp_path / "parent") == 0
    assert torch.equal(child.model.shared.weight, fresh)
    layer = "model.encoder.layers.0.fc1.weight"
    given = trainer.average.weights[layer].bfloat16().float()
    assert torch.equal(child.state_dict()[layer], given)


def test_layers_above_those_of_the_parent_add_nothing_at_first(run, recipe, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    deeper = dataclasses.replace(recipe, preset=DEEPER_THAN_TINY)
    child = build.new_model(deeper, trainer.vocabulary)
    inherit(child, trainer.vocabulary, tmp_path / "parent")
    given = {name: w.bfloat16().float() for name, w in trainer.average.weights.items()}
    above = set(dict(child.named_parameters())) - set(given)
    assert {name.rsplit("layers.")[1][0] for name in above if "encoder.layers" in name} == {*"23"}
    assert {name.rsplit("layers.")[1][0] for name in above if "decoder.layers" in name} == {*"2"}
    if recipe.level == "char":  # of Eq. 9
        keys = [name for name in above if name.endswith("area.fc2.weight")]
        assert len(keys) == 4 and all(child.state_dict()[name].any() for name in keys)
    parent = build.new_model(recipe, trainer.vocabulary)
    parent.load_state_dict(given)
    source, target = torch.arange(20).view(2, 10) + 5, torch.arange(14).view(2, 7) + 30
    states = []
    for model in (parent, child):
        model.eval().reserve(10)
        states.append(model.decode(*model.encode(source), model.inputs(target)))
    if recipe.norm == "pre":  # post-norm layers still norm what passes by
        torch.testing.assert_close(*states, atol=1e-6, rtol=1e-5)
    child.train().decode(*child.encode(source), child.inputs(target)).sum().backward()
    assert all(w.grad.abs().max() > 0 for name, w in child.named_parameters()
               if name in above and "out_proj.weight" in name)


def test_a_parent_that_lacks_a_tensor_is_refused(run, tmp_path):
    from safetensors.torch import load_file, save_file

    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    path, lost = tmp_path / "parent/model.safetensors", "model.encoder.layers.1.fc2.weight"
    kept = {name: w for name, w in load_file(path).items() if name != lost}
    save_file(kept, path)
    with pytest.raises(ValueError, match=f"found no {lost}"):
        inherit(trainer.model, trainer.vocabulary, tmp_path / "parent")


def test_a_parent_of_another_shape_is_refused(run, tmp_path):
    trainer = Trainer(run)
    trainer.evaluate()
    export.export(run, tmp_path / "parent")
    shape = dataclasses.replace(trainer.recipe, preset="small")
    with pytest.raises(ValueError, match="expected .*found"):
        inherit(build.new_model(shape, trainer.vocabulary), trainer.vocabulary,
                tmp_path / "parent")


def write_parent(folder, **changes):
    """Writes such a model as a parent; returns its weights."""
    recipe, model, vocabulary = of_bytes(folder, **changes)
    write_json(folder / "config.json", export.model_config(recipe, vocabulary))
    export.write_tensors(model.state_dict(), folder / "model.safetensors")
    return model.state_dict()


@pytest.mark.parametrize("parent, child, factors", [
    ("regular", "eq3", [1 / 3] * 6),
    ("eq3", "regular", [3] * 6),
    ("eq3", "eq3", []),
    ("eq3", {"value": "mean"}, [3] * 6),
    ({"value": "mean"}, {"value": "max", "key": "max"}, []),
    ("eq9", {"encoder_self": {"width": [5, 2]}}, [2]),
    ({"decoder_cross": {"width": [1, 3]}}, "eq3", [1 / 3, 2 / 3]),
])
def test_attentions_begin_as_large_as_those_of_a_parent_with_other_areas(
        tmp_path, parent, child, factors):
    given = write_parent(tmp_path, area=parent)
    _, model, vocabulary = of_bytes(tmp_path, area=child)
    scales = output_scales(model.shape, tmp_path)
    assert list(scales.values()) == pytest.approx(factors)
    assert all(name.endswith("_attn.out_proj.weight") for name in scales)
    inherit(model, vocabulary, tmp_path)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), given[name] * scales.get(name, 1))


@pytest.mark.parametrize("parent, child, message", [
    ({"preset": DEEPER_THAN_TINY | {"heads": 2}}, {},
     "encoder_attention_heads: expected 4, .* found 2"),
    ({"preset": "lstm-256", "norm": "post"},
     {"preset": "lstm-256", "norm": "post", "heads": 4},
     "decoder_attention_heads: expected 4, .* found 1"),
    ({}, {"area": "eq9"}, "area.encoder_self: expected key concat, height 1 and width 5 in layer 0"
     ", found mean, 1 and 5"),
    ({"area": "eq9"}, {"area": {"key": "concat", "decoder_cross": {"width": [5, 2]}}},
     "area.decoder_cross: expected key concat, height 1 and width 2 in layer 1"),
])
def test_a_parent_of_other_heads_or_dense_layers_is_refused(tmp_path, parent, child, message):
    write_parent(tmp_path, **parent)
    _, model, vocabulary = of_bytes(tmp_path, **child)
    with pytest.raises(ValueError, match=f"config.json: {message}"):
        inherit(model, vocabulary, tmp_path)


@pytest.mark.parametrize("command", ["prepare", "all"])
def test_a_parent_of_another_shape_is_refused_before_text_is_read(command, tmp_path, capsys):
    recipe = tmp_path / "recipe.json"
    for change, message in (
        ({"preset": "lstm-256"}, "model_type: expected acre-lstm, .* found m2m_100"),
        ({}, "model_type: expected marian, .* found m2m_100"),
        ({"norm": "pre"}, "d_model: expected 128, .* found 256"),
        ({"norm": "pre", "preset": DEEPER_THAN_TINY | {"width": 256}},
         "encoder_ffn_dim: expected 512, .* found 1024"),
    ):
        recipe.write_text(json.dumps(RECIPE | {"start_from": "en-de-token"} | change))
        assert main([command, str(recipe), "--run", str(tmp_path / "run"), "--corpora", "/nowhere",
                     "--eval", "/nowhere"]) == 1
        assert re.search(f"models/en-de-token/config.json: {message}", capsys.readouterr().err)


@pytest.mark.parametrize("changes, key", [
    ({"start_from": "nosuch"}, "start_from"),
    ({"start_from": "en-de-char", "pieces_from": "nosuch"}, "pieces_from")])
def test_a_model_that_is_not_where_a_run_begins_is_named_with_its_key(tmp_path, changes, key):
    """As on a machine that got the prepared folder only."""
    recipe, model, vocabulary = of_bytes(tmp_path, **changes)
    with pytest.raises(FileNotFoundError, match=f"{key}: expected a model in .*nosuch, found no"):
        build.begin(model, vocabulary, recipe)
