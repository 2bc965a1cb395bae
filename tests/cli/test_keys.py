"""acre keys: what it prints, what it keeps, what it refuses."""

import hashlib
import json
import os
import re
import sqlite3
import stat
import subprocess

import pytest

from conftest import failed


def listed(acre, store):
    done = acre("keys", "list", "--store", store, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_key_is_shown_once_and_stored_hashed(acre, tmp_path):
    store = tmp_path / "acre.db"
    added = acre("keys", "add", "web", "--store", store, "--quota", "5000", "--rate", "60")
    assert added.returncode == 0, added.stderr
    key = added.stdout.strip()
    assert re.fullmatch(r"acre-[0-9a-f]{40}", key)
    assert stat.S_IMODE(os.stat(store).st_mode) == 0o600
    assert key.encode() not in store.read_bytes()
    assert key[5:].encode() not in store.read_bytes()
    with sqlite3.connect(store) as db:
        assert db.execute("SELECT hash FROM keys").fetchall() == \
            [(hashlib.sha256(key.encode()).digest(),)]
    row, = listed(acre, store)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row.pop("created"))
    assert row == {"name": "web", "quota": 5000, "rate": 60, "characters": 0, "requests": 0}
    assert key not in acre("keys", "list", "--store", store).stdout


def test_a_revoked_key_stays_in_the_list_and_frees_its_name(acre, tmp_path):
    store = tmp_path / "acre.db"
    first = acre("keys", "add", "web", "--store", store).stdout
    again = acre("keys", "add", "web", "--store", store)
    failed(again, 1, str(store), "found web, which has a key")
    assert acre("keys", "revoke", "--name", "web", "--store", store).returncode == 0
    failed(acre("keys", "revoke", "web", "--store", store), 1, "expected the name of a key")
    second = acre("keys", "add", "web", "--store", store).stdout
    assert first != second
    assert ["revoked" in row for row in listed(acre, store)] == [True, False]


@pytest.mark.parametrize("args, texts", [
    ([], ["ACTION: expected add, list or revoke, found none"]),
    (["give"], ['ACTION: expected add, list or revoke, found "give"']),
    (["list"], ["--store: expected the file of a server's store, found none"]),
    (["add", "--store", "x"], ["NAME: expected a name of 1 to 64 letters", 'found ""']),
    (["add", "two words", "--store", "x"], ["NAME: expected", 'found "two words"']),
    (["add", "n" * 65, "--store", "x"], ["NAME: expected a name of 1 to 64"]),
    (["add", "web", "--store", "x", "--quota", "-1"], ["--quota: expected an integer from 0"]),
    (["add", "web", "--store", "x", "--rate", "many"], ["--rate: expected an integer from 0"]),
])
def test_wrong_usage(acre, args, texts):
    failed(acre("keys", *args), 2, *texts)


def test_stores_that_are_none(acre, tmp_path):
    failed(acre("keys", "list", "--store", tmp_path / "none.db"), 1, "none.db: expected a store")
    assert not (tmp_path / "none.db").exists()
    text = tmp_path / "text.db"
    text.write_text("no database " * 50)
    failed(acre("keys", "list", "--store", text), 1, f"{text}: file is not a database")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE recipes (name)")
    before = other.read_bytes()
    failed(acre("keys", "add", "web", "--store", other), 1, f"{other}: expected a store of acre")
    assert other.read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_key_that_cannot_be_shown_is_not_added(acre, acre_path, tmp_path):
    store = tmp_path / "acre.db"
    acre("keys", "add", "first", "--store", store)
    for args in (["add", "web"], ["list"], ["list", "--json"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([acre_path, "keys", *args, "--store", store], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (
            1, "acre: standard output: expected to be writable, found an error\n")
        assert [row["name"] for row in listed(acre, store)] == ["first"]
    assert acre("keys", "add", "web", "--store", store).returncode == 0


def test_a_new_store_opened_by_several_at_once(acre_path, tmp_path):
    """As replicas do that share a volume and start together."""
    for i in range(20):
        adding = [subprocess.Popen([acre_path, "keys", "add", f"web{n}", "--store",
                                    tmp_path / f"{i}.db"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True) for n in range(6)]
        assert [process.communicate()[1] for process in adding] == [""] * 6
        assert [process.returncode for process in adding] == [0] * 6
