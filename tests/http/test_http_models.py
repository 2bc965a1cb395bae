"""Which models `acre serve` finds, and what it calls them."""

import os
import shutil
import subprocess

from acre_server import ACRE, ROOT, SENTENCE, Server

GOLDEN = ROOT / "tests/golden/models/tiny-token"


def served(folder, cwd=None):
    """(what GET /models lists, the log) of a server of this folder."""
    before = os.getcwd()
    os.chdir(cwd or before)
    try:
        server = Server(folder)
    finally:
        os.chdir(before)
    try:
        models = server.get("/models").json()["models"]
        assert server.translate(SENTENCE).status_code == 200
        for model in models:
            assert server.post(f"/translate/{model['name']}", json={"q": "a"}).status_code == 200
    finally:
        assert server.stop() == 0
    return models, "".join(server.log)


def test_the_folder_may_be_a_model(tmp_path):
    model = tmp_path / "opus-mt-en-de"
    shutil.copytree(GOLDEN, model)
    (model / "tokenizer_config.json").unlink()  # only the folder's name tells the languages
    for folder, cwd in ((model, None), (f"{model}/", None), (".", model),
                        ("opus-mt-en-de", tmp_path)):
        models, _ = served(folder, cwd)
        assert [(m["name"], m["source"], m["target"]) for m in models] == [
            ("opus-mt-en-de", "en", "de")]


def test_a_link_to_a_version_is_called_by_its_own_name(tmp_path):
    """Also where only the name tells the languages."""
    for pair in ("en-de", "en-fr"):
        version = tmp_path / "versions" / pair / "v3"
        shutil.copytree(GOLDEN, version)
        (version / "tokenizer_config.json").unlink()
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / "models" / f"opus-mt-{pair}").symlink_to(version)
    models, _ = served(tmp_path / "models")
    assert [(m["name"], m["source"], m["target"]) for m in models] == [
        ("opus-mt-en-de", "en", "de"), ("opus-mt-en-fr", "en", "fr")]
    models, _ = served(tmp_path / "models/opus-mt-en-de")
    assert [(m["name"], m["target"]) for m in models] == [("opus-mt-en-de", "de")]


def test_two_models_of_one_pair_are_told(tmp_path):
    for name in ("b-en-de", "a-en-de"):
        shutil.copytree(GOLDEN, tmp_path / name)
    shutil.copytree(ROOT / "tests/golden/models/tiny-char", tmp_path / "en-de-char")
    models, log = served(tmp_path)
    assert [m["name"] for m in models] == ["a-en-de", "b-en-de", "en-de-char"]
    assert ("warning models a-en-de and b-en-de both translate en to de by token: a-en-de answers, "
            "unless a request names b-en-de") in log
    assert log.count("both translate") == 1


def test_a_bad_model_stops_the_start_or_is_left_out(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "good-en-de")
    shutil.copytree(GOLDEN, tmp_path / "broken-en-de")
    (tmp_path / "broken-en-de/model.safetensors").write_bytes(b"")
    command = [ACRE, "serve", "--listen", "127.0.0.1:0", "--models", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "broken-en-de/model.safetensors" in done.stderr
    server = Server(tmp_path, bad_models="skip")
    try:
        names = [m["name"] for m in server.get("/models").json()["models"]]
        assert names == ["good-en-de"]
        assert any("left out: " in line and "broken-en-de" in line for line in server.log)
    finally:
        assert server.stop() == 0
    shutil.rmtree(tmp_path / "good-en-de")
    done = subprocess.run([*command, "--set", "bad_models=skip"], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 1
    assert "broken-en-de/model.safetensors" in done.stderr


def test_a_folder_whose_name_is_no_text(tmp_path):
    """Its model stands in JSON and in metrics all the same."""
    (tmp_path / os.fsdecode(b"m\xe8-en-de")).symlink_to(GOLDEN)
    server = Server(tmp_path)
    try:
        (model,) = server.get("/models").json()["models"]
        assert model["name"] == "m\ufffd-en-de"
        assert server.post("/translate/m%EF%BF%BD-en-de", json={"q": "Hi."}).status_code == 200
        assert 'model="m\ufffd-en-de"' in server.get("/metrics").content.decode()
    finally:
        assert server.stop() == 0


def test_a_model_file_cut_short_harms_nobody(tmp_path):
    """Whatever happens to the file of a loaded model: the server has what it needs of it."""
    for name, golden in (("en-de-token", GOLDEN), ("en-fr-char", GOLDEN.parent / "tiny-char")):
        shutil.copytree(golden, tmp_path / name)
    texts = [f"{SENTENCE[:-1]} {word}?" for word in ("today", "house", "window", "morning")]
    server = Server(tmp_path)
    try:
        before = [server.post(f"/translate/{name}", json={"q": texts}).json()
                  for name in ("en-de-token", "en-fr-char")]
        for weights in tmp_path.glob("*/*.safetensors"):
            os.truncate(weights, 0)
        after = [server.post(f"/translate/{name}", json={"q": texts}).json()
                 for name in ("en-de-token", "en-fr-char")]
        assert after == before
    finally:
        assert server.stop() == 0
