"""`make install` into a folder: the settings there are a server's, and an upgrade keeps them."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
SANITIZER = BUILD.name if BUILD != ROOT / "build" else None


def install(folder, umask=0o022):
    """What was built is taken as it is; what it says."""
    if not (BUILD / "acre").exists() or not (BUILD / "libacre.a").exists():
        pytest.skip("not all of what is installed is built")
    sanitize = [f"SAN={SANITIZER}"] if SANITIZER else []
    return subprocess.run(["make", "--no-print-directory", "-o", "build", "install", "CUDA=0",
                           *sanitize, "PREFIX=/opt/acre", f"DESTDIR={folder}"], cwd=ROOT,
                          capture_output=True, text=True, check=True, timeout=120,
                          umask=umask).stdout


def test_anybody_can_read_what_a_strict_umask_installs(tmp_path):
    """The server of the unit is a user of its own."""
    install(tmp_path, umask=0o077)
    hidden = [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o044 != 0o044]
    assert hidden == []


def test_settings_that_are_there_are_kept(tmp_path):
    path = tmp_path / "opt/acre/share/acre/acre.json"
    assert f"kept {path}" not in install(tmp_path)
    shipped = json.loads((ROOT / "conf/acre.json").read_text())
    assert json.loads(path.read_text()) == shipped | {"models": "/opt/acre/share/acre/models"}
    unit = (tmp_path / "opt/acre/lib/systemd/system/acre.service").read_text()
    assert "--config /opt/acre/share/acre/acre.json" in unit
    assert (tmp_path / "opt/acre/share/man/man5/acre.json.5").stat().st_size > 0
    path.write_text('{"rate_limit": 7}')
    assert f"kept {path} as it is" in install(tmp_path)
    assert path.read_text() == '{"rate_limit": 7}'


def test_programs_are_compiled_as_the_readme_says(tmp_path):
    install(tmp_path)
    line = re.search(r"^    cc translate\.c .*", (ROOT / "README.md").read_text(), re.MULTILINE)[0]
    sanitize = f"-fsanitize={SANITIZER}" if SANITIZER else ""
    where = {"PKG_CONFIG_PATH": f"{tmp_path}/opt/acre/lib/pkgconfig",
             "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    subprocess.run(f"{line} {sanitize} -o {tmp_path}/translate", shell=True, check=True,
                   cwd=ROOT / "tests/example", env=os.environ | where)
    model = ROOT / "tests/golden/models/tiny-token"
    said = subprocess.check_output([tmp_path / "translate", model, "Hello there."], text=True)
    assert said.strip()


def test_programs_may_have_any_name_that_is_not_acre_s(tmp_path):
    install(tmp_path)
    archive = tmp_path / "opt/acre/lib/libacre.a"
    symbols = subprocess.check_output(["nm", "--extern-only", "--defined-only", archive], text=True)
    names = re.findall(r"^\w+ [A-Za-z] (\w+)$", symbols, re.MULTILINE)
    assert "acre_submit" in names and "acre_bench_preset" in names
    assert [name for name in names if not name.startswith("acre_")] == []


@pytest.mark.parametrize("checkout, options", [("a b", []), ("ab", ["DESTDIR=/c d"]),
                                               ("ab", ["PREFIX=/c d"])])
def test_paths_with_blanks_are_refused(tmp_path, checkout, options):
    """Make takes each for two."""
    (tmp_path / checkout).mkdir()
    result = subprocess.run(["make", "-nf", ROOT / "Makefile", *options], cwd=tmp_path / checkout,
                            capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 2
    assert "expected no blank in the paths" in result.stderr
    assert f"'{tmp_path / checkout}'" in result.stderr


def test_flags_of_packagers_come_beside_those_of_the_project():
    """Also as variables of the command line, where += alone would not add to them."""
    command = ["make", "-n", "-W", "engine/job.c", "CFLAGS=-O1", "CPPFLAGS=-DX", "LDFLAGS=-Wl,-O1",
               f"{BUILD}/engine/job.c.o".replace(f"{ROOT}/", "")]
    said = subprocess.check_output(command + ([f"SAN={SANITIZER}"] if SANITIZER else []), cwd=ROOT,
                                   text=True, timeout=120)
    assert {"-O1", "-std=c11", "-DX", "-Iengine"} <= set(said.split())


def test_a_model_that_cannot_be_installed_is_told(tmp_path):
    """Whichever it is: not only the last."""
    place = tmp_path / "opt/acre/share/acre/models/en-de-char"
    place.parent.mkdir(parents=True)
    place.write_text("a file in the folder's place")
    with pytest.raises(subprocess.CalledProcessError):
        install(tmp_path)
