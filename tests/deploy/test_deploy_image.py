"""The image, without a container engine: what is in it, how large it is, how soon it answers."""

import json
import shutil
import stat
import subprocess
import time
import urllib.request

import pytest
from fleet import ACRE, BUILD, ROOT, free_port, wait_until
from image_root import (NOBODY, Container, ask, build_stage, can_run, compressed_bytes, files,
                        health_check, image, make_volume)

MIB = 1 << 20


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if BUILD.name != "build":
        pytest.skip("sanitizers bring libraries of their own")
    return build_stage(tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="module")
def root(built, tmp_path_factory):
    return image(built, tmp_path_factory.mktemp("image"))


def test_it_is_small(root):
    assert compressed_bytes(root) < 45 * MIB


def test_it_has_no_shell_and_nothing_with_privileges(root):
    programs = [path for path in files(root) if path.stat().st_mode & stat.S_IXUSR
                and ".so" not in path.name]
    assert [path.relative_to(root).as_posix() for path in programs] == ["usr/bin/acre"]
    assert not [path for path in files(root) if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert not [path for path in files(root) if path.stat().st_mode & stat.S_IWOTH]


def test_libraries_come_with_records_and_licences(root):
    records = {path.name: path.read_text() for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libuv1", "libsentencepiece0"} <= set(records)
    for name, text in records.items():
        assert text.startswith(f"Package: {name}\n") and "\nVersion: " in text
        assert (root / "usr/share/doc" / name / "copyright").stat().st_size > 0


def test_the_bill_of_materials_is_spdx(root):
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    path = root / "usr/share/acre/sbom.spdx.json"
    document = parse_file(str(path))
    assert [message.validation_message for message in validate_full_spdx_document(document)] == []
    names = {package.name for package in document.packages}
    assert {"acre", "node-llhttp"} | {p.name for p in (root / "var/lib/dpkg/status.d").iterdir()} \
        == names


def test_its_settings_are_the_shipped_ones_but_for_four(root):
    ours = json.loads((root / "etc/acre/acre.json").read_text())
    shipped = json.loads((ROOT / "conf/acre.json").read_text())
    assert ours.keys() == shipped.keys()
    assert {key: value for key, value in ours.items() if value != shipped[key]} == {
        "listen": "[::]:5000", "models": "/models", "log_format": "json", "drain_grace_s": 3}


@pytest.mark.skipif(not can_run(), reason="needs root to give files away")
@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_nobody_may_write_its_state_and_nothing_else(built, tmp_path, name):
    """A new volume has the owner of the folder that it is mounted on."""
    root = image(built, tmp_path / "root", name)
    given = [path.relative_to(root).as_posix() for path in root.rglob("*")
             if path.lstat().st_uid == int(NOBODY) or path.lstat().st_gid == int(NOBODY)]
    assert given == [Container.VOLUME[1:]] and not list((root / given[0]).iterdir())
    assert stat.S_IMODE((root / given[0]).stat().st_mode) == 0o755


@pytest.mark.skipif(not can_run(), reason="needs root and mount namespaces")
def test_it_serves_as_nobody_on_a_read_only_root(root):
    shutil.copytree(ROOT / "models/en-de-token", root / "models/en-de-token", dirs_exist_ok=True)
    port = free_port()
    container = Container(root, f"127.0.0.1:{port}")
    try:
        wait_until(container.is_ready, "the server in its root", 20)
        text = ask(port)
        seconds = time.monotonic() - container.began
        state = container.state()
        assert text == subprocess.run(
            [ACRE, "translate", "--model", ROOT / "models/en-de-token"],
            input="Where is the train station?\n", capture_output=True, text=True,
            check=True).stdout.strip()
        assert state["Uid"].split() == ["65534"] * 4 and state["NoNewPrivs"] == "1"
        assert int(state["CapEff"], 16) == int(state["CapPrm"], 16) == 0
        assert seconds < 10, "one second on a machine of its own"
        print(f"first answer after {seconds:.2f} s")
    finally:
        status = container.stop()
    assert status == 0
    assert container.health().returncode == 1


def change_glossary(port, method, path, **fields):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/glossaries{path}",
                                     json.dumps(fields).encode(), method=method,
                                     headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.loads(reply.read() or "null")


@pytest.mark.skipif(not can_run(), reason="needs root and mount namespaces")
def test_it_changes_large_glossaries_without_a_folder_for_temporary_files(root, tmp_path):
    shutil.copytree(ROOT / "tests/golden/models/tiny-token", root / "models/tiny-token",
                    dirs_exist_ok=True)
    port = free_port()
    container = Container(root, f"127.0.0.1:{port}", volume=make_volume(root, tmp_path / "keys"),
                          command=("serve", "--models", "/models/tiny-token", "--set",
                                   f"store={Container.VOLUME}/acre.db"))
    part = {"source_lang": "en", "target_lang": "de", "entries_format": "tsv",
            "entries": "".join(f"term {i}\tWort {i}\n" for i in range(20_000))}
    try:
        wait_until(container.is_ready, "the server in its root", 20)
        made = change_glossary(port, "POST", "", name="large", dictionaries=[part])["glossary_id"]
        change_glossary(port, "PUT", f"/{made}/dictionaries", **part | {"entries": "one\teins"})
        change_glossary(port, "PUT", f"/{made}/dictionaries", **part)
        change_glossary(port, "DELETE", f"/{made}")
    finally:
        assert container.stop() == 0


@pytest.fixture
def settings(root):
    """Those of the image, to be changed by one test."""
    path = root / "etc/acre/acre.json"
    shipped = path.read_text()
    yield path
    path.write_text(shipped)


def test_images_have_one_health_check():
    assert health_check("Dockerfile") == health_check("Dockerfile.cuda")


@pytest.mark.skipif(not can_run(), reason="needs root and mount namespaces")
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "[::]"])
def test_the_health_check_asks_what_the_settings_say(root, settings, host):
    """Another port, and TLS."""
    models = shutil.copytree(ROOT / "tests/golden/models/tiny-token", root / "models/tiny-token",
                             dirs_exist_ok=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", root / "etc/acre/tls.key", "-out", root / "etc/acre/tls.pem"],
                   check=True, capture_output=True)
    (root / "etc/acre/tls.key").chmod(0o644)
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {
        "listen": [f"{host}:{free_port()}"], "tls_certificate": "/etc/acre/tls.pem",
        "tls_key": "/etc/acre/tls.key", "models": f"/models/{models.name}"}))
    container = Container(root, None)
    try:
        wait_until(container.is_ready, "the health check to say so", 20)
    finally:
        assert container.stop() == 0
    assert container.health().returncode == 1
