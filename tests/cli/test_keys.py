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


def hashes(store):
    with sqlite3.connect(store) as db:
        return [row[0] for row in db.execute("SELECT hash FROM keys ORDER BY id")]


def hash_of(key):
    return hashlib.sha256(key.encode()).digest()


def test_a_key_is_shown_once_and_stored_hashed(acre, tmp_path):
    store = tmp_path / "acre.db"
    added = acre("keys", "add", "web", "--store", store, "--quota", "5000", "--rate", "60")
    assert added.returncode == 0, added.stderr
    key = added.stdout.strip()
    assert re.fullmatch(r"acre-[0-9a-f]{40}", key)
    assert stat.S_IMODE(os.stat(store).st_mode) == 0o600
    assert key.encode() not in store.read_bytes()
    assert key[5:].encode() not in store.read_bytes()
    assert hashes(store) == [hash_of(key)]
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


def test_limits_are_set_one_by_one(acre, tmp_path):
    store = tmp_path / "acre.db"
    key = acre("keys", "add", "web", "--store", store, "--quota", "5000", "--rate", "60").stdout
    for args, quota, rate in ((["--quota", "7"], 7, 60), (["--rate", "0"], 7, 0)):
        done = acre("keys", "set", "web", "--store", store, *args)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        row, = listed(acre, store)
        assert (row["quota"], row["rate"]) == (quota, rate)
    assert hashes(store) == [hash_of(key.strip())]
    failed(acre("keys", "set", "app", "--store", store, "--rate", "1"), 1,
           "expected the name of a key that is not revoked, found app")
    failed(acre("keys", "set", "web", "--store", store), 2, "expected --quota or --rate")


def test_a_renewed_key_is_another_with_the_same_limits(acre, tmp_path):
    store = tmp_path / "acre.db"
    old = acre("keys", "add", "web", "--store", store, "--quota", "5000", "--rate", "60").stdout
    before = listed(acre, store)
    new = acre("keys", "renew", "web", "--store", store).stdout
    assert re.fullmatch(r"acre-[0-9a-f]{40}\n", new) and new != old
    assert hashes(store) == [hash_of(new.strip())]
    assert listed(acre, store) == before
    assert acre("keys", "renew", "web", "--store", store, "--rate", "0").returncode == 0
    assert listed(acre, store)[0]["rate"] == 0
    failed(acre("keys", "renew", "app", "--store", store), 1, "expected the name of a key")


def test_several_stores_take_the_same_key(acre, acre_path, tmp_path):
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    file = tmp_path / "key"
    file.write_text(acre("keys", "add", "web", "--store", first).stdout)
    done = acre("keys", "add", "web", "--store", second, "--key-file", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert hashes(second) == hashes(first)
    file.write_text(acre("keys", "renew", "web", "--store", first).stdout.strip())
    with open(file, encoding="ascii") as key:
        subprocess.run([acre_path, "keys", "renew", "web", "--store", second, "--key-file", "-"],
                       stdin=key, timeout=60, check=True)
    assert hashes(second) == hashes(first)
    again = acre("keys", "add", "app", "--store", second, "--key-file", file)
    failed(again, 1, "expected a new key, found that of web")


def test_the_same_key_may_be_added_again(acre, tmp_path):
    """As where a container starts anew."""
    store, file = tmp_path / "acre.db", tmp_path / "key"
    file.write_text(f"acre-{40 * '1'}\n")
    for limits in ((), ("--rate", "5"), ("--quota", "9"), ()):
        done = acre("keys", "add", "web", "--store", store, "--key-file", file, *limits)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    row = acre("keys", "list", "--store", store).stdout.splitlines()[1].split()
    assert row[:5] == ["web", "0", "9", "0", "5"]
    assert acre("keys", "renew", "web", "--store", store, "--key-file", file).returncode == 0
    file.write_text(f"acre-{40 * '2'}\n")
    failed(acre("keys", "add", "web", "--store", store, "--key-file", file), 1,
           "expected a new name, found web, which has a key")


@pytest.mark.parametrize("text, found", [
    ("", "less"), ("acre-" + 39 * "0", "less"), ("acre-" + 41 * "0", "more"),
    ("acre-" + 40 * "A", "something else"), ("ACRE-" + 40 * "0", "something else"),
    ("acre-" + 39 * "0" + "\0", "something else"), (45 * "0", "something else"),
    ("acre-" + 40 * "0" + "\nx", "more"), (5000 * "0", "more"),
])
def test_files_without_a_key(acre, tmp_path, text, found):
    file, store = tmp_path / "key", tmp_path / "acre.db"
    file.write_text(text)
    failed(acre("keys", "add", "web", "--store", store, "--key-file", file), 1,
           f'{file}: expected "acre-" and 40 of 0123456789abcdef, found {found}\n')
    assert not store.exists()


def test_files_that_cannot_be_read(acre, tmp_path):
    for file, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        failed(acre("keys", "add", "web", "--store", tmp_path / "acre.db", "--key-file", file), 1,
               f"{file}: {why}")


@pytest.mark.parametrize("args, texts", [
    ([], ["ACTION: expected add, list, set, renew or revoke, found none"]),
    (["give"], ['ACTION: expected add, list, set, renew or revoke, found "give"']),
    (["list"], ["--store: expected the file of a server's store, found none"]),
    (["add", "--store", "x"], ["NAME: expected a name of 1 to 64 letters", 'found ""']),
    (["add", "two words", "--store", "x"], ["NAME: expected", 'found "two words"']),
    (["add", "n" * 65, "--store", "x"], ["NAME: expected a name of 1 to 64"]),
    (["add", "web", "--store", "x", "--quota", "-1"], ["--quota: expected an integer from 0"]),
    (["add", "web", "--store", "x", "--rate", "many"], ["--rate: expected an integer from 0"]),
    (["set", "web", "--store", "x", "--rate", "1", "--key-file", "y"],
     ["--key-file: expected with add or renew, found with set"]),
    (["revoke", "web", "--store", "x", "--quota", "1"],
     ["--quota and --rate: expected with add, set or renew, found with revoke"]),
    (["list", "--store", "x", "--rate", "1"], ["expected with add, set or renew, found with list"]),
    (["list", "web", "--store", "x"],
     ["NAME: expected with add, set, renew or revoke, found with list"]),
    (["add", "web", "--store", "x", "--json"], ["--json: expected with list, found with add"]),
    (["add", "web", "--store", "x", "--key-file", ""], ['--key-file: expected a file, found ""']),
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
    known = hashes(store)
    for args in (["add", "web"], ["renew", "first"], ["list"], ["list", "--json"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([acre_path, "keys", *args, "--store", store], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (
            1, "acre: standard output: expected to be writable, found an error\n")
        assert hashes(store) == known
    assert acre("keys", "add", "web", "--store", store).returncode == 0


def test_a_new_store_opened_by_several_at_once(acre_path, tmp_path):
    """As replicas do that share a volume and start together."""
    for i in range(20):
        adding = [subprocess.Popen([acre_path, "keys", "add", f"web{n}", "--store",
                                    tmp_path / f"{i}.db"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True) for n in range(6)]
        assert [process.communicate(timeout=60)[1] for process in adding] == [""] * 6
        assert [process.returncode for process in adding] == [0] * 6
