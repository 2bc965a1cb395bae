"""The manual pages say what the command's help says: every option, every setting, in full."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ACRE = os.environ.get("ACRE", str(ROOT / "build/acre"))


def said(*command):
    return subprocess.check_output([ACRE, *command], text=True)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Both pages as text: roff's requests and escapes taken away, white space made one blank."""
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([ROOT / "conf/manual", ACRE, folder], check=True)

    def text(name):
        page = (folder / name).read_text()
        assert not re.search(r"^\.(?!TH|SH|SS|PP|TP|BR?|I|ad|nh)", page, re.MULTILINE)
        assert not re.search(r'^\.(?:SS|B|I) .*"', page, re.MULTILINE)  # roff would drop it
        assert not re.search("^'", page, re.MULTILINE)  # a request, too
        assert "\\'" not in page  # an accent
        page = re.sub(r"^\.(?:SS|B|I|PP|TP) ?", "", page, flags=re.MULTILINE)
        page = page.replace("\\&", "").replace("\\-", "-").replace("\\(dq", '"')
        page = page.replace("\\e", "\\")
        return " ".join(page.split())

    return {name: text(name) for name in ("acre.1", "acre.json.5")}


def plain(text):
    return " ".join(text.replace("`", "'").split())


COMMANDS = re.findall(r"^  (\w+) ", said("--help"), re.MULTILINE) if Path(ACRE).exists() else []


def test_there_are_commands():
    assert {"serve", "translate", "bench", "inspect"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_line_of_help_is_there(pages, command):
    options = 0
    for line in said(command, "--help").splitlines():
        if line.startswith("  "):
            option, text = re.fullmatch(r"  (.{24}) (\S.*)", line).groups()
            assert plain(f"{option.strip()} {text}") in pages["acre.1"]
            options += 1
        else:
            assert plain(line.removeprefix("usage: ")) in pages["acre.1"]
    assert options >= 3


def test_every_setting_is_there(pages):
    lines = said("serve", "--help-config").splitlines()
    assert plain(" ".join(lines)) in pages["acre.json.5"]
    keys = re.findall(r'^    "(\w+)":', (ROOT / "conf/acre.json").read_text(), re.MULTILINE)
    assert keys == [line.split()[0] for line in lines if not line.startswith(" ")]


def test_every_variable_that_is_read_is_there(pages):
    sources = [path for folder in ("engine", "server") for path in (ROOT / folder).rglob("*.c*")]
    read = set(re.findall(r'\bgetenv\("(\w+)"\)', "".join(p.read_text() for p in sources)))
    assert "ACRE_CPU" in read and not [name for name in read if name not in pages["acre.1"]]


def test_pages_and_package_have_the_version_of_the_program(pages):
    version = said("--version").split()[1]
    assert all(f'"acre {version}"' in page for page in pages.values())
    changelog = (ROOT / "conf/debian/changelog").read_text()
    assert changelog.startswith(f"acre ({version}) ")
