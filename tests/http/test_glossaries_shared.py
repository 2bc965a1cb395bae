"""Servers that share a store see what the others do to glossaries, without a restart."""

import sqlite3
import threading
from contextlib import closing

import deepl
import pytest
import requests
from acre_server import PATIENCE, eventually
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from test_glossaries import add_key, make

PAIR = {"source_lang": "EN", "target_lang": "DE"}
SEEN_S = 10 * PATIENCE


def ids(server):
    return {g["glossary_id"] for g in server.get("/v2/glossaries").json()["glossaries"]}


def entries(server, made):
    return server.get(f"/v2/glossaries/{made}/entries").text


def put(server, made, text):
    part = {"source_lang": "en", "target_lang": "de", "entries": text, "entries_format": "tsv"}
    return requests.put(f"{server.url}/v3/glossaries/{made}/dictionaries", json=part,
                        timeout=20 * PATIENCE)


@pytest.fixture
def both(serve, tmp_path):
    """Two servers on one store."""
    path = tmp_path / "store.db"
    return [serve(store=path) for _ in range(2)], path


def test_each_sees_what_the_other_does(serve, tmp_path):
    path = tmp_path / "store.db"
    key = add_key(path, "ann")
    servers = [serve(store=path, keys_required="true") for _ in range(2)]
    first, second = (deepl.DeepLClient(key, server_url=server.url) for server in servers)
    with closing(first), closing(second):
        made = first.create_glossary("mine", "EN", "DE", {"teacher": "Lehrkraft"})

        def translates(text):
            try:
                return second.translate_text("Teacher", **PAIR, glossary=made).text == text
            except deepl.DeepLException:
                return False

        assert eventually(lambda: translates("Lehrkraft"), SEEN_S)
        shown = second.get_multilingual_glossary(made.glossary_id)
        assert shown.creation_time == made.creation_time
        first.update_multilingual_glossary_dictionary(
            made.glossary_id, Entries("EN", "DE", {"teacher": "Lehrerin"}))
        assert eventually(lambda: translates("Lehrerin"), SEEN_S)
        second.update_multilingual_glossary_name(made.glossary_id, "ours")
        assert eventually(
            lambda: first.get_multilingual_glossary(made.glossary_id).name == "ours", SEEN_S)
        assert first.get_glossary_entries(made.glossary_id) == {"teacher": "Lehrerin"}
        second.delete_glossary(made.glossary_id)
        assert eventually(lambda: first.list_glossaries() == [], SEEN_S)
        assert not translates("Lehrerin")


def test_both_at_once_come_to_the_same(both):
    """Each makes, changes and deletes its own and changes a common one; and so both end alike."""
    servers, path = both
    common = make(servers[0]).json()["glossary_id"]
    assert eventually(lambda: common in ids(servers[1]), SEEN_S)
    wrong = []

    def work(server, name):
        for i in range(40):
            own = make(server, f"{name}\t{i}").json()["glossary_id"]
            replies = [put(server, own, f"{name}\t{i} again"), put(server, common, f"{name}\t{i}")]
            wrong.extend(reply.text for reply in replies if reply.status_code != 200)
            if i % 2:
                url = f"{server.url}/v2/glossaries/{own}"
                if requests.delete(url, timeout=20 * PATIENCE).status_code != 204:
                    wrong.append(url)

    threads = [threading.Thread(target=work, args=(server, name))
               for server, name in zip(servers, ["one", "other"], strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with sqlite3.connect(path) as db:
        kept = {row[0] for row in db.execute("SELECT id FROM glossaries")}
        last = db.execute("SELECT entries FROM dictionaries WHERE glossary = ?",
                          [common]).fetchone()[0].decode()
    assert len(kept) == 41
    for server in servers:
        assert eventually(lambda s=server: ids(s) == kept, SEEN_S)
        assert eventually(lambda s=server: entries(s, common) == last, SEEN_S)
        for made in sorted(kept - {common}):
            assert entries(server, made).endswith(" again")


def patch(server, made, **fields):
    return requests.patch(f"{server.url}/v3/glossaries/{made}", json=fields, timeout=20 * PATIENCE)


def one(source, target, text):
    return {"source_lang": source, "target_lang": target, "entries": text, "entries_format": "tsv"}


def kept_in(path, made):
    with sqlite3.connect(path) as db:
        return {(row[0], row[1].decode()) for row in db.execute(
            "SELECT target, entries FROM dictionaries WHERE glossary = ?", [made])}


def test_a_server_that_has_not_seen_a_change_takes_it_up(both):
    """Whatever the first has done and said, the second starts from that, at once."""
    servers, path = both
    for i in range(5):
        made = make(servers[0], "a\tA").json()["glossary_id"]
        assert eventually(lambda m=made: m in ids(servers[1]), SEEN_S)
        more = {"name": f"new {i}", "dictionaries": [one("en", "de", "b\tB")]}
        assert patch(servers[0], made, **more).status_code == 200
        assert patch(servers[1], made, dictionaries=[one("en", "de", "c\tC")]).status_code == 200
        assert kept_in(path, made) == {("de", "a\tA\nb\tB\nc\tC")}
        assert patch(servers[0], made, dictionaries=[one("en", "fr", "d\tD")]).status_code == 200
        url = f"{servers[1].url}/v3/glossaries/{made}/dictionaries"
        assert requests.delete(url, params={"source_lang": "en", "target_lang": "de"},
                               timeout=20 * PATIENCE).status_code == 204
        assert kept_in(path, made) == {("fr", "d\tD")}
        shown = servers[1].get(f"/v3/glossaries/{made}").json()
        assert shown["name"] == f"new {i}"
        assert [part["target_lang"] for part in shown["dictionaries"]] == ["fr"]


def test_what_one_has_deleted_stays_away(both):
    servers, path = both
    for _ in range(5):
        made = make(servers[0]).json()["glossary_id"]
        assert eventually(lambda m=made: m in ids(servers[1]), SEEN_S)
        url = f"/v2/glossaries/{made}"
        assert requests.delete(servers[0].url + url, timeout=20 * PATIENCE).status_code == 204
        assert put(servers[1], made, "new\tneu").status_code == 404
        assert servers[1].get(url).status_code == 404 and not kept_in(path, made)
        assert made not in ids(servers[1])
    assert "glossaries: " not in "".join(servers[1].log)


def test_many_at_once_come_in_parts(both):
    servers, path = both
    with sqlite3.connect(path) as db:
        for i in range(200):
            db.execute("INSERT INTO glossaries (id, owner, name, created) VALUES (?, 0, 'n', ?)",
                       [f"{i:036d}", i])
            db.execute("INSERT INTO dictionaries VALUES (?, 0, 'en', 'de', ?)",
                       [f"{i:036d}", f"term\t{i}".encode()])
        db.execute("UPDATE facts SET value = value + 200 WHERE name = 'glossaries'")
    for server in servers:
        assert eventually(lambda s=server: len(ids(s)) == 200, SEEN_S)
        assert entries(server, f"{199:036d}") == "term\t199"
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM dictionaries")
        db.execute("DELETE FROM glossaries")
        db.execute("UPDATE facts SET value = value + 1 WHERE name = 'glossaries'")
    for server in servers:
        assert eventually(lambda s=server: ids(s) == set(), SEEN_S)


def test_what_cannot_be_read_changes_nothing(both):
    servers, path = both
    made = make(servers[0]).json()["glossary_id"]
    assert eventually(lambda: made in ids(servers[1]), SEEN_S)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE dictionaries SET entries = x'ff00'")
        db.execute("DELETE FROM facts WHERE name = 'glossaries'")
    says = "glossaries of other servers are not seen"
    assert eventually(lambda: says in "".join(servers[1].log), SEEN_S)
    assert entries(servers[1], made) == "Hello\tHallo"
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO facts VALUES ('glossaries', 9)")
    assert eventually(lambda: f"{says}: no longer" in "".join(servers[1].log), SEEN_S)
    assert entries(servers[1], made) == "Hello\tHallo"
