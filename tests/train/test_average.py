"""The weighted mean of exported models."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from safetensors.torch import load_file, save_file  # noqa: E402

from models.train import average, export  # noqa: E402
from models.train.__main__ import main  # noqa: E402

SHAPES = {"model.shared.weight": (30, 8), "model.encoder.layers.0.fc1.weight": (16, 8),
          "final_logits_bias": (1, 30)}
CONFIG = {"model_type": "marian", "d_model": 8, "area": {"decoder_cross": {"width": [5, 5]}}}


def random_tensors(seed, dtype=torch.bfloat16):
    torch.manual_seed(seed)
    return {name: torch.randn(shape).to(dtype) for name, shape in SHAPES.items()}


@pytest.fixture
def model(tmp_path):
    """Makes a model directory."""

    def make(name, tensors):
        folder = tmp_path / name
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / "generation_config.json").write_text(json.dumps({"num_beams": len(name)}))
        (folder / "vocab.json").write_text('{"</s>": 0, "dog": 1}')
        (folder / "source.spm").write_bytes(b"pieces")
        (folder / "README.md").write_text(f"# {name}")
        return folder

    return make


@pytest.fixture
def pair(model):
    return model("one", random_tensors(1)), model("two", random_tensors(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_mean_is_exact_but_for_rounding(model, tmp_path, dtype):
    given = [random_tensors(seed, dtype) for seed in range(3)]
    folders = [str(model(f"model{i}", tensors)) for i, tensors in enumerate(given)]
    out = tmp_path / "new" / "mean"
    assert main(["average", folders[0], f"{folders[1]}:2", f"{folders[2]}:0.2", "--out",
                 str(out)]) == 0
    found = load_file(out / "model.safetensors")
    assert set(found) == set(SHAPES)
    for name, tensor in found.items():
        one, two, three = (tensors[name].double() for tensors in given)
        expected = (one + 2 * two + 0.2 * three) / 3.2
        assert tensor.dtype == dtype
        if dtype == torch.float32:
            torch.testing.assert_close(tensor.double(), expected, rtol=1e-6, atol=1e-7)
        else:
            assert torch.equal(tensor, expected.to(dtype))


def test_the_mean_of_a_model_with_itself_is_that_model(pair, tmp_path):
    one = pair[0]
    for weights in (":1", ":1"), (":0.4", ":0.6"), ("", ":2"):
        arguments = [f"{one}{weight}" for weight in weights]
        assert main(["average", *arguments, "--out", str(tmp_path / "mean")]) == 0
        found = load_file(tmp_path / "mean" / "model.safetensors")
        assert all(torch.equal(found[name], w) for name, w in random_tensors(1).items())


def test_all_else_is_the_first_models(pair, tmp_path, capsys):
    """Files of a model, that is: another mean could not take their place otherwise."""
    one, two = pair
    files = {path.name for path in one.iterdir()}
    (one / ".gitattributes").write_text("* text\n")
    (one / "notes").mkdir()
    for _ in range(2):
        assert main(["average", f"{one}:2", f"{two}:3", "--out", str(tmp_path / "mean")]) == 0
    assert {path.name for path in (tmp_path / "mean").iterdir()} == files
    for name in files - {"model.safetensors"}:
        assert (tmp_path / "mean" / name).read_bytes() == (one / name).read_bytes()
    assert f"mean: 0.4 {one} + 0.6 {two}; " in capsys.readouterr().out


def test_shards_stay_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "LARGEST_SINGLE_FILE", 100)
    monkeypatch.setattr(export, "LARGEST_SHARD", 50)
    folders = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        export.write_weights(random_tensors(seed), folder)
    average.average([(folder, 1.0) for folder in folders], tmp_path / "mean")
    index = (tmp_path / "mean" / "model.safetensors.index.json").read_bytes()
    assert index == (folders[0] / "model.safetensors.index.json").read_bytes()
    for name, file in json.loads(index)["weight_map"].items():
        one, two = (random_tensors(seed)[name].double() for seed in range(2))
        found = load_file(tmp_path / "mean" / file)[name]
        assert torch.equal(found, ((one + two) / 2).bfloat16())


def rewrite(change):
    """What changes the weights of a model directory so."""

    def edit(folder):
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return edit


def narrow(tensors):
    tensors["final_logits_bias"] = tensors["final_logits_bias"][:, :20].contiguous()


def widen_type(tensors):
    tensors["final_logits_bias"] = tensors["final_logits_bias"].float()


@pytest.mark.parametrize("change, message", [
    (lambda two: (two / "config.json").write_text(json.dumps(CONFIG | {"d_model": 16})),
     "two: config.json: d_model: expected 8, found 16"),
    (lambda two: (two / "config.json").write_text(
        json.dumps(CONFIG | {"area": {"decoder_cross": {"width": [5, 4]}}})),
     "two: config.json: area: decoder_cross: width: expected [5, 5], found [5, 4]"),
    (lambda two: (two / "vocab.json").write_text('{"</s>": 0, "dog": 1, "cat": 2}'),
     "two: vocab.json: cat: expected nothing, found 2"),
    (lambda two: (two / "vocab.json").write_text("{"), "two/vocab.json: expected JSON: "),
    (lambda two: (two / "source.spm").write_bytes(b"others"),
     "two: source.spm: sha256: expected "),
    (lambda two: (two / "tokenizer_config.json").write_text("{}"),
     "two: tokenizer_config.json: expected nothing, found {}"),
    (rewrite(narrow),
     "two: model.safetensors: final_logits_bias: shape: expected [1, 30], found [1, 20]"),
    (rewrite(widen_type),
     "two: model.safetensors: final_logits_bias: dtype: expected BF16, found F32"),
    (rewrite(lambda tensors: tensors.pop("final_logits_bias")),
     "two: model.safetensors: final_logits_bias: expected {'dtype': 'BF16', 'shape': [1, 30]}, "
     "found nothing"),
    (lambda two: (two / "model.safetensors").write_bytes(b"cut"), "two/model.safetensors: Error"),
    (lambda two: (two / "model.safetensors").unlink(),
     "two: expected a model directory with .safetensors files"),
])
def test_what_differs_is_named_and_nothing_is_written(pair, tmp_path, capsys, change, message):
    change(pair[1])
    arguments = ["average", *map(str, pair), "--out", str(tmp_path / "new" / "mean")]
    assert main(arguments) == 1
    assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf", "", "half"])
def test_weights_are_positive_numbers(pair, tmp_path, capsys, weight):
    arguments = [str(pair[0]), f"{pair[1]}:{weight}", "--out", str(tmp_path / "mean")]
    assert main(["average", *arguments]) == 1
    expected = f"two:{weight}: weight: expected a positive number, found {weight!r}"
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("out", ["one", "two", "one/mean", "two/../one", "."])
def test_a_model_is_not_written_over_its_parents(pair, tmp_path, capsys, out):
    assert main(["average", *map(str, pair), "--out", str(tmp_path / out)]) == 1
    assert "expected a folder apart from the models, found " in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}
    assert (pair[0] / "README.md").read_text() == "# one"


def test_another_model_is_replaced_only_by_a_whole_one(pair, model, tmp_path, monkeypatch):
    old = model("old", random_tensors(3))
    arguments = ["average", *map(str, pair), "--out", str(old)]

    def full(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(average, "write_tensors", full)
        assert main(arguments) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "old"}
    assert (old / "README.md").read_text() == "# old"
    assert main(arguments) == 0
    assert (old / "README.md").read_text() == "# one"
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "old"}


def test_other_folders_are_spared(pair, tmp_path, capsys):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("years of work")
    assert main(["average", *map(str, pair), "--out", str(tmp_path / "thesis")]) == 1
    assert "found other files" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.txt"]
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "thesis"}
