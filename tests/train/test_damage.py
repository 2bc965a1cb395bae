"""Files of a run that are damaged, empty or missing: one line says which, and what was expected."""

import json
import shutil

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")

from models.train.__main__ import main  # noqa: E402
from models.train.pack import pack  # noqa: E402
from models.train.prepare import prepare  # noqa: E402
from models.train.trainer import Trainer  # noqa: E402
from small import RECIPE  # noqa: E402

pytestmark = pytest.mark.usefixtures("small_and_quick")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, corpora):
    """A run on pieces, prepared and evaluated once."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "recipe.json").write_text(json.dumps(RECIPE | {"norm": "pre"}))
    prepare(folder / "recipe.json", corpora, corpora / "eval", folder / "prepared")
    return folder


@pytest.fixture
def run(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    trainer = Trainer(tmp_path / "run")
    trainer.evaluate()
    trainer.save()
    return tmp_path / "run"


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def zeros(path):
    path.write_bytes(bytes(5000))


def other(path):
    torch.save([1, 2], path)


def said(capsys, command, run, *more):
    """What the command says on its standard error, where that is one line."""
    assert main([command, "test", "--run", str(run), *more]) == 1
    text = capsys.readouterr().err
    assert text.startswith("models.train: ") and text.count("\n") == 1
    return text


@pytest.mark.parametrize("spoil", [cut, empty, zeros, other])
@pytest.mark.parametrize("command, more, name", [
    ("train", ["--cooldown", "1"], "checkpoint.pt"), ("train", ["--cooldown", "1"], "best.pt"),
    ("evaluate", [], "best.pt"), ("export", [], "best.pt"), ("export", ["--last"], "checkpoint.pt"),
])
def test_a_checkpoint_that_is_none_is_named(run, capsys, spoil, command, more, name):
    spoil(run / name)
    assert f"{run / name}: expected a checkpoint, found" in said(capsys, command, run, *more)


@pytest.mark.parametrize("spoil", [cut, flip, empty, zeros, other])
def test_pairs_that_cannot_be_read_are_named(run, capsys, spoil):
    path = run / "prepared/train.npz"
    spoil(path)
    assert f"{path}: expected arrays (en_ids, " in said(capsys, "train", run)


@pytest.mark.parametrize("arrays", [{"en_ids": np.zeros(1)}, {}])
def test_pairs_that_lack_an_array_are_named(run, capsys, arrays):
    path = run / "prepared/train.npz"
    np.savez(path, **arrays)
    assert f"{path}: expected arrays (en_ids, " in said(capsys, "train", run)
    path.unlink()
    assert f"{path}: expected arrays (en_ids, " in said(capsys, "train", run)


@pytest.mark.parametrize("spoil", [cut, empty, zeros, lambda path: path.unlink()])
@pytest.mark.parametrize("command", ["train", "export"])
def test_pieces_that_cannot_be_read_are_named(run, capsys, spoil, command):
    path = run / "prepared/source.spm"
    spoil(path)
    assert f"{path}: expected a SentencePiece model, found" in said(capsys, command, run)


@pytest.mark.parametrize("text, message", [
    ("[]", "expected an object of pieces, numbered from 0 on"),
    ('{"a": 0, "b": 2}', "expected an object of pieces, numbered from 0 on"),
    ('{"a": 0, "b": []}', "expected an object of pieces, numbered from 0 on"),
    ('{"a": 0, "</s>": 1}', "expected <unk>, <pad> among the pieces, found none"),
])
def test_pieces_without_their_numbers_are_named(run, capsys, text, message):
    path = run / "prepared/vocab.json"
    path.write_text(text)
    assert f"{path}: {message}" in said(capsys, "train", run)


@pytest.mark.parametrize("text, message", [
    ("{}", "corpora: expected an object, found None"),
    ("[]", "corpora: expected an object, found None"),
    ('{"corpora": {"tatoeba": {}}}', "corpora.tatoeba.pairs: expected an integer, found None"),
    ('{"corpora": {"tatoeba": 1}}', "corpora.tatoeba.pairs: expected an integer, found None"),
])
@pytest.mark.parametrize("command", ["train", "export"])
def test_sources_without_their_pairs_are_named(run, capsys, text, message, command):
    path = run / "prepared/sources.json"
    path.write_text(text)
    assert f"{path}: {message}" in said(capsys, command, run)
    assert not (run / "model").exists()


@pytest.mark.parametrize("spoil", [cut, empty, zeros, flip, other])
def test_a_pack_that_cannot_be_read_is_named(whole, tmp_path, capsys, spoil):
    archive = tmp_path / "de.tar.xz"
    pack(whole / "prepared", [], 0, archive)
    spoil(archive)
    assert main(["campaign", str(tmp_path / "campaigns"), "--packs", str(archive), "--minutes",
                 "1", "--out", str(tmp_path / "out")]) == 1
    text = capsys.readouterr().err
    assert text.startswith(f"models.train: {archive}: expected what pack writes, ")
    assert text.count("\n") == 1 and not (tmp_path / "campaigns/de/pack").exists()


def test_an_archive_of_something_else_is_no_pack(tmp_path, capsys):
    (tmp_path / "words").mkdir()
    archive = shutil.make_archive(str(tmp_path / "de"), "xztar", tmp_path / "words")
    assert main(["campaign", str(tmp_path / "campaigns"), "--packs", archive, "--minutes", "1",
                 "--out", str(tmp_path / "out")]) == 1
    assert "expected what pack writes, found no pack/recipe.json" in capsys.readouterr().err


def test_what_is_not_there_cannot_be_packed(tmp_path, capsys):
    (tmp_path / "mono.txt").write_text("Ein Satz.\n")
    for made in (False, True):
        if made:
            (tmp_path / "prepared").mkdir()
        assert main(["pack", str(tmp_path / "prepared"), str(tmp_path / "mono.txt"), "--out",
                     str(tmp_path / "de.tar.xz")]) == 1
        text = capsys.readouterr().err
        assert text.count("\n") == 1 and f"{tmp_path / 'prepared'}" in text and "expected" in text
