"""python3 -m models.convert: what it says, and what it does to folders."""

import errno
import json
import shutil
import stat
import sys

import pytest
from marian_layout import write_marian


@pytest.fixture
def source(golden, fixtures, tmp_path):
    """A directory as transformers saved it, under a name that tells the languages."""
    folder = tmp_path / "in/opus-mt-en-fr"
    shutil.copytree(golden / "two-vocabs", folder)
    (folder / "model.safetensors").unlink()
    shutil.copyfile(fixtures / "zip.bin", folder / "pytorch_model.bin")
    return folder


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def check_refused(done, target, *words):
    """Exit status 1, one line that says all of these words, and nothing left behind."""
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("models.convert: ") and done.stderr.count("\n") == 1
    assert not [word for word in words if word not in done.stderr], done.stderr
    assert not [name for name in files(target.parent) if name.startswith(".")]


def test_help(command):
    done = command("--help")
    assert done.returncode == 0 and "SOURCE" in done.stdout and "--target-lang" in done.stdout
    assert "mBART-50" in done.stdout


def test_a_directory_is_written(command, source, tmp_path):
    done = command(source, tmp_path / "new/en-fr")
    assert done.returncode == 0 and "45 tensors, BF16" in done.stdout and done.stderr == ""
    assert files(tmp_path / "new") == ["en-fr"]
    assert stat.S_IMODE((tmp_path / "new/en-fr").stat().st_mode) == 0o755
    assert files(tmp_path / "new/en-fr") == [
        "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm",
        "target_vocab.json", "tokenizer_config.json", "vocab.json"]


@pytest.mark.parametrize("options, name, expected", (
    ((), "opus-mt-en-fr", ("en", "fr")),
    ((), "opus-mt-tc-big-fi-eng", ("fi", "eng")),
    ((), "a-model", (None, None)),
    (("--source-lang", "de"), "en-fr", ("de", "fr")),
    (("--source-lang", "de", "--target-lang", "nob"), "a-model", ("de", "nob")),
))
def test_languages(command, source, tmp_path, options, name, expected):
    tokenizer = source / "tokenizer_config.json"
    config = json.loads(tokenizer.read_text())
    tokenizer.write_text(json.dumps({k: v for k, v in config.items() if "_lang" not in k}))
    done = command(source.rename(source.parent / name), tmp_path / "out", *options)
    found = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    assert (found.get("source_lang"), found.get("target_lang")) == expected
    assert ("no languages found" in done.stderr) == (None in expected)


def test_a_model_directory_is_replaced(command, source, golden, tmp_path):
    shutil.copytree(golden / "tiny-token", tmp_path / "out")
    (tmp_path / "out/golden.json").rename(tmp_path / "out/README.md")
    assert command(source, tmp_path / "out").returncode == 0
    (tmp_path / "out/sentencepiece.bpe.model").write_text("of a model of many languages")
    assert command(source, tmp_path / "out").returncode == 0
    left = {"README.md", "sentencepiece.bpe.model"} & {*files(tmp_path / "out")}
    assert not left and files(tmp_path) == ["in", "out"]
    (tmp_path / "empty").mkdir()
    assert command(source, tmp_path / "empty").returncode == 0


@pytest.mark.parametrize("names, words", (
    (("thesis.tex", "notes"), ["a model directory", "notes, thesis.tex"]),
    (("config.json", "app.py"), ["a model directory", "app.py, config.json"]),
    (("config.json", "model.safetensors", "thesis.tex"), ["nothing else", "thesis.tex"]),
))
def test_other_folders_are_left_alone(command, source, tmp_path, names, words):
    target = tmp_path / "out"
    target.mkdir()
    for name in names:
        (target / name).write_text("mine")
    check_refused(command(source, target), target, *words)
    assert files(target) == sorted(names)


def test_the_source_is_left_alone(command, source, tmp_path):
    before = files(source)
    for target in (source, source / "model", source.parent):
        check_refused(command(source, target), target, "apart from the source")
    target = tmp_path / "link"
    target.symlink_to(source.parent)
    check_refused(command(source, target), target, "apart from the source")
    (tmp_path / "file").write_text("mine")
    check_refused(command(source, tmp_path / "file"), tmp_path / "file", "a folder, or none yet")
    assert files(source) == before


def test_nothing_is_left_of_a_conversion_that_fails(command, source, golden, tmp_path):
    """The damage is found while the weights are written; what was there before stays."""
    path = source / "pytorch_model.bin"
    data = bytearray(path.read_bytes())
    data[-30000] ^= 1
    path.write_bytes(data)
    target = tmp_path / "out"
    check_refused(command(source, target), target, "pytorch_model.bin", "CRC")
    assert not target.exists()
    shutil.copytree(golden / "tiny-char", target)
    (target / "golden.json").unlink()
    before = files(target)
    check_refused(command(source, target), target, "CRC")
    assert files(target) == before


@pytest.mark.parametrize("name", ("config.json", "generation_config.json", "tokenizer_config.json",
                                  "vocab.json", "target_vocab.json", "source.spm", "target.spm",
                                  "pytorch_model.bin"))
def test_files_elsewhere_do_not_go_along(command, source, tmp_path, name):
    (source / name).rename(tmp_path / "secret")
    (source / name).symlink_to(tmp_path / "secret")
    check_refused(command(source, tmp_path / "out"), tmp_path / "out",
                  f"{name}: expected a file of the source, found a link to one elsewhere")


@pytest.mark.parametrize("name", ("README.md", "LICENSE"))
def test_cards_elsewhere_do_not_go_along(command, source, tmp_path, name):
    (tmp_path / "secret").write_text("mine")
    (source / name).symlink_to(tmp_path / "secret")
    check_refused(command(source, tmp_path / "out"), tmp_path / "out",
                  f"{name}: expected a file of the source, found a link to one elsewhere")
    (source / name).unlink()
    (source / "notes").write_text("ours")
    (source / name).symlink_to("notes")
    assert command(source, tmp_path / "out").returncode == 0
    assert (tmp_path / "out" / name).read_text() == "ours"


def test_cards_of_a_cache_go_along(command, source, tmp_path):
    blobs, snapshot = tmp_path / "models--x--en-fr/blobs", tmp_path / "models--x--en-fr/snapshots/1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (source / "LICENSE").write_text("ours")
    for path in source.iterdir():
        path.rename(blobs / path.name)
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    done = command(snapshot, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/LICENSE").read_text() == "ours"


def test_a_full_disk_is_told_with_the_target(source, tmp_path, monkeypatch):
    from models.convert import __main__ as program
    from models.convert import directory

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(directory, "write_safetensors", full)
    with pytest.raises(SystemExit) as stopped:
        program.main([str(source), str(tmp_path / "out")])
    assert stopped.value.code == f"models.convert: {tmp_path / 'out'}: No space left on device"


def test_sources_that_are_none(command, tmp_path):
    target = tmp_path / "out"
    check_refused(command(tmp_path / "gone", target), target, "gone", "a folder or an .npz")
    (tmp_path / "empty").mkdir()
    check_refused(command(tmp_path / "empty", target), target, "config.json", ".npz (Marian)")
    (tmp_path / "opus.zip").write_text("")
    check_refused(command(tmp_path / "opus.zip", target), target, "give its folder, unpacked")
    assert command(tmp_path).returncode == 2


def test_bad_languages(command, source, tmp_path):
    done = command(source, tmp_path / "out", "--target-lang", "French")
    check_refused(done, tmp_path / "out", "--target-lang", "two or three letters", "French")


def test_messages_cannot_steer_the_terminal(command, source, tmp_path):
    (source / "config.json").write_text('{"model_type": "\\u001b[2J\\u0007"}')
    check_refused(command(source, tmp_path / "out"), tmp_path / "out", "\\u001b[2J\\u0007")


def test_notes_and_both_ways_to_name_a_marian_model(command, golden, tmp_path):
    folder = write_marian(golden / "tiny-token", tmp_path / "en-de")
    decoder = (folder / "decoder.yml").read_text().replace("word-penalty: 0", "word-penalty: 0.5")
    (folder / "decoder.yml").write_text(decoder)
    for given, target in ((folder, "a"), (folder / "model.npz", "b")):
        done = command(given, tmp_path / target)
        assert done.returncode == 0 and "note: decoder.yml: word-penalty 0.5" in done.stderr
        config = json.loads((tmp_path / target / "tokenizer_config.json").read_text())
        assert (config["source_lang"], config["target_lang"]) == ("en", "de")
    same = (tmp_path / name / "model.safetensors" for name in "ab")
    assert len({path.read_bytes() for path in same}) == 1


@pytest.mark.parametrize("name", ("pytorch_model.bin", "vocab.json", "source.spm"))
def test_pointers_of_git_lfs_are_told(command, source, tmp_path, name):
    (source / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n")
    check_refused(command(source, tmp_path / "out"), tmp_path / "out",
                  f"{name}: expected the file itself", "git lfs pull")


def test_a_python_without_numpy_is_told(command, source, tmp_path):
    done = command(source, tmp_path / "out", interpreter=(sys.executable, "-B", "-S"))
    assert done.returncode == 1 and "apt-get install python3-numpy" in done.stderr
