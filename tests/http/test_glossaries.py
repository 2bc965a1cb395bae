"""DeepL's glossaries, as its official Python client uses them, unchanged; and over plain HTTP."""

import json
import re
import sqlite3
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import deepl
import pytest
import requests
from acre_server import ACRE, eventually
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from deepl.util import convert_tsv_to_dict

NO_GLOSSARY = "96ab91fd-e715-41a1-adeb-5d701f84a483"
ODD_ENTRIES = {"Apple": "Apfel", "Banana": "Banane", "A%=&": "B&=%", "Δぁ": "深", "🪨": "🪵"}


@pytest.fixture
def client(server):
    """Of the server that tests share: each leaves it without glossaries."""
    with_key = deepl.DeepLClient("any-key", server_url=server.url)
    yield with_key
    for glossary in with_key.list_multilingual_glossaries():
        with_key.delete_multilingual_glossary(glossary)
    with_key.close()


def make(server, entries="Hello\tHallo", **fields):
    body = {"name": "mine", "source_lang": "en", "target_lang": "de", "entries": entries,
            "entries_format": "tsv", **fields}
    return server.post("/v2/glossaries", json=body)


def test_a_file_is_translated_with_a_glossary(client, server):
    made = client.create_glossary("mine", "EN", "DE", {"teacher": "Lehrkraft"})
    fields = {"source": "en", "target": "de", "glossary_id": made.glossary_id}
    files = {"file": ("a.txt", "The teacher sleeps.")}
    url = server.post("/translate_file", data=fields, files=files).json()["translatedFileUrl"]
    assert "Lehrkraft" in requests.get(url, timeout=10).text
    fields["glossary_id"] = NO_GLOSSARY
    assert server.post("/translate_file", data=fields, files=files).status_code == 404


# ---- Version 2 -----------------------------------------------------------------------------------


def test_make_show_and_delete(client):
    made = client.create_glossary("mine", "EN", "DE", ODD_ENTRIES)
    assert (made.name, made.source_lang, made.target_lang) == ("mine", "EN", "DE")
    assert made.entry_count == len(ODD_ENTRIES) and made.ready
    shown = client.get_glossary(made.glossary_id)
    assert vars(shown) == vars(made)
    assert client.get_glossary_entries(made) == ODD_ENTRIES
    assert client.get_glossary_entries(made.glossary_id) == ODD_ENTRIES
    assert [g.glossary_id for g in client.list_glossaries()] == [made.glossary_id]
    client.delete_glossary(made)
    assert client.list_glossaries() == []
    for wrong in (made.glossary_id, NO_GLOSSARY, "invalid"):
        for call in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
            with pytest.raises(deepl.GlossaryNotFoundException):
                call(wrong)


def test_make_from_csv(client):
    csv = 'sourceEntry1,targetEntry1,en,de\n"source""Entry",targetEntry,en,de\n\n"a, b",c\n'
    made = client.create_glossary_from_csv("mine", "EN", "DE", csv)
    assert client.get_glossary_entries(made) == {
        "sourceEntry1": "targetEntry1", 'source"Entry': "targetEntry", "a, b": "c"}


def test_csv_as_it_comes(server, client):
    text = '\ufeff"a ""b""","c, d"\r\nx,y,EN,DE\r\nleft,out,de,en\r\n'
    made = make(server, text, entries_format="csv").json()
    reply = server.get(f"/v2/glossaries/{made['glossary_id']}/entries")
    assert reply.headers["Content-Type"] == "text/tab-separated-values; charset=UTF-8"
    assert reply.text == 'a "b"\tc, d\nx\ty'


def test_a_byte_order_mark_is_no_part_of_a_term(server, client):
    """Entries are kept as TSV, and a file loses such a mark at its beginning when it is read."""
    made = make(server, '\ufeff"\ufeff dog",Tier\r\n', entries_format="csv").json()
    assert server.get(f"/v2/glossaries/{made['glossary_id']}/entries").text == "dog\tTier"


def test_made_by_a_form(server, client):
    reply = server.post("/v2/glossaries", data={
        "name": "mine", "source_lang": "EN", "target_lang": "DE", "entries_format": "tsv",
        "entries": "Hello\tHallo\r\nBye\tTschüs"})
    assert reply.status_code == 201 and reply.json()["entry_count"] == 2


@pytest.mark.parametrize("fields, message", [
    ({"name": None}, "Parameter 'name' not specified"),
    ({"name": ""}, "Parameter 'name' not specified"),
    ({"name": "n" * 1025}, "Value for 'name' not supported"),
    ({"source_lang": None}, "Parameter 'source_lang' not specified"),
    ({"target_lang": "xx"}, "Unsupported glossary source and target language pair"),
    ({"target_lang": "en"}, "Unsupported glossary source and target language pair"),
    ({"target_lang": "-"}, "Value for 'target_lang' not supported"),
    ({"entries": None}, "Parameter 'entries' not specified"),
    ({"entries": 5}, "Value for 'entries' not supported"),
    ({"entries_format": "xml"}, "Value for 'entries_format' not supported"),
    ({"entries_format": None}, "Parameter 'entries_format' not specified"),
    ({"entries": " \n\n"}, "Invalid glossary entries provided: expected entries, found none"),
    ({"entries": "a\tb\nc"}, "Invalid glossary entries provided: entry 2: expected a tab"),
    ({"entries": "a\tb\tc"}, "Invalid glossary entries provided: entry 1: expected one tab"),
    ({"entries": "a\t"}, "Invalid glossary entries provided: entry 1: expected a target term"),
    ({"entries": "\ta"}, "Invalid glossary entries provided: entry 1: expected a source term"),
    ({"entries": "a\tb\nc\td\na\te"},
     "Invalid glossary entries provided: entry 3: expected a term that is not there yet, found "
     'that of entry 1, "a"'),
    ({"entries": "a\x01b\tc"}, "Invalid glossary entries provided: entry 1: expected a source term "
                               "without control characters"),
    ({"entries": "a\tb\u2028c"}, "Invalid glossary entries provided: entry 1: expected a target "
                                 "term without control characters"),
    ({"entries": "a" * 1025 + "\tb"}, "Invalid glossary entries provided: entry 1: expected a "
                                      "source term of at most 1024 bytes, found 1025"),
    ({"entries": '"a,b', "entries_format": "csv"}, "Invalid glossary entries provided: entry 1: "
                                                   "expected a quote that closes the field"),
    ({"entries": '"a"b,c', "entries_format": "csv"}, "Invalid glossary entries provided: entry 1: "
                                                     "expected a comma behind a quoted field"),
    ({"entries": "a", "entries_format": "csv"}, "Invalid glossary entries provided: entry 1: "
                                                "expected a comma between two terms"),
    ({"entries": "a,b,c,d,e", "entries_format": "csv"}, "Invalid glossary entries provided: "
                                                        "entry 1: expected two fields, or four"),
    ({"entries": "a\nb,c", "entries_format": "csv"}, "Invalid glossary entries provided: entry 1"),
])
def test_refused(server, fields, message):
    reply = make(server, **fields)
    assert reply.status_code == 400, reply.text
    assert reply.json()["message"].startswith(message), reply.text
    assert server.get("/v2/glossaries").json() == {"glossaries": []}


def test_the_client_refuses_and_is_refused(client):
    with pytest.raises(ValueError):
        client.create_glossary("", "EN", "DE", {"Hello": "Hallo"})
    with pytest.raises(deepl.DeepLException, match="Unsupported glossary"):
        client.create_glossary("mine", "EN", "XX", {"Hello": "Hallo"})


def test_pairs(client):
    pairs = [(p.source_lang, p.target_lang) for p in client.get_glossary_languages()]
    assert pairs == [("en", "de"), ("en", "fr")]


# ---- Version 3 -----------------------------------------------------------------------------------


def test_several_dictionaries(client):
    made = client.create_multilingual_glossary("mine", [
        Entries("EN", "DE", ODD_ENTRIES), Entries("DE", "EN", {"Hallo": "Hello"})])
    assert [(d.source_lang, d.target_lang, d.entry_count) for d in made.dictionaries] == \
        [("EN", "DE", 5), ("DE", "EN", 1)]
    shown = client.get_multilingual_glossary(made.glossary_id)
    assert shown.creation_time == made.creation_time and shown.name == "mine"
    found = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
    assert len(found) == 1 and convert_tsv_to_dict(found[0].entries) == ODD_ENTRIES
    assert [g.glossary_id for g in client.list_multilingual_glossaries()] == [made.glossary_id]
    assert client.list_glossaries() == []  # version 2 shows those of one dictionary
    with pytest.raises(deepl.GlossaryNotFoundException, match="several dictionaries"):
        client.get_glossary(made.glossary_id)
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    with pytest.raises(deepl.GlossaryNotFoundException, match="Dictionary not found"):
        client.get_multilingual_glossary_entries(made, "EN", "DE")
    assert [g.glossary_id for g in client.list_glossaries()] == [made.glossary_id]
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)


def test_names_and_dictionaries_change(client):
    made = client.create_multilingual_glossary("mine", [
        Entries("EN", "DE", {"Hello": "Hallo", "Bye": "Tschüs"}),
        Entries("DE", "EN", {"Hallo": "Hello"})])
    assert client.update_multilingual_glossary_name(made, "yours").name == "yours"
    updated = client.update_multilingual_glossary_dictionary(
        made, Entries("EN", "DE", {"Hello": "Guten Tag", "Apple": "Apfel"}))
    assert updated.name == "yours"
    assert [d.entry_count for d in updated.dictionaries] == [3, 1]
    found = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries[0].entries
    assert found == "Hello\tGuten Tag\nBye\tTschüs\nApple\tApfel"
    replaced = client.replace_multilingual_glossary_dictionary(
        made, Entries("EN", "DE", {"Apple": "Apfel"}))
    assert replaced.entry_count == 1
    client.update_multilingual_glossary_dictionary_from_csv(made, "EN", "FR", "Apple,pomme")
    pairs = [(d.source_lang, d.target_lang)
             for d in client.get_multilingual_glossary(made.glossary_id).dictionaries]
    assert pairs == [("EN", "DE"), ("DE", "EN"), ("EN", "FR")]


@pytest.mark.parametrize("body, message", [
    ({"name": "a"}, "Parameter 'dictionaries' not specified"),
    ({"name": "a", "dictionaries": []}, "Parameter 'dictionaries' not specified"),
    ({"name": "a", "dictionaries": "x"}, "Value for 'dictionaries' not supported"),
    ({"name": "a", "dictionaries": [5]}, "Value for 'dictionaries' not supported"),
    ({"name": "a", "dictionaries": [{}] * 65},
     "Value for 'dictionaries' not supported: expected at most 64, found 65"),
    ({"name": "a", "dictionaries": [{"source_lang": ["en"]}]},
     "Value for 'source_lang' not supported: expected a string, found an array"),
    ({"name": ["a"]}, "Value for 'name' not supported: expected a string, found an array"),
    ({"name": "a", "dictionaries": [{}]}, "Parameter 'source_lang' not specified"),
    ({"name": "a", "dictionaries": 2 * [{"source_lang": "en", "target_lang": "de",
                                         "entries": "a\tb", "entries_format": "tsv"}]},
     "Value for 'dictionaries' not supported: expected one for each pair"),
    ({"name": "a", "dictionaries": [{"source_lang": "en", "target_lang": code, "entries": "a\tb",
                                     "entries_format": "tsv"} for code in ("nb", "no")]},
     "Value for 'dictionaries' not supported: expected one for each pair"),
    ({"name": "a", "dictionaries": [{"source_lang": "nb", "target_lang": "no", "entries": "a\tb",
                                     "entries_format": "tsv"}]}, "Unsupported glossary source"),
    ({"dictionaries": [{}]}, "Parameter 'name' not specified"),
])
def test_refused_in_version_3(server, body, message):
    reply = server.post("/v3/glossaries", json=body)
    assert reply.status_code == 400 and reply.json()["message"].startswith(message), reply.text


def form_of(name, parts):
    """As DeepL's clients for Node, Java and .NET write it."""
    members = {f"dictionaries[{i}].{key}": value for i, part in enumerate(parts)
               for key, value in part.items()}
    return {"name": name, **members}


PART = {"source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}


def test_dictionaries_in_a_form(server, client):
    codes = "ar bg cs da de el es et fi fr hu id it ja ko lt lv nb nl pl".split()
    parts = [{**PART, "target_lang": code, "entries": f"a\t{code}"} for code in codes]
    made = server.post("/v3/glossaries", data=form_of("mine", parts))
    assert made.status_code == 201, made.text
    assert [each["target_lang"] for each in made.json()["dictionaries"]] == \
        [each["target_lang"] for each in parts]
    url = "/v3/glossaries/" + made.json()["glossary_id"]
    more = {**PART, "target_lang": "fr", "entries": "c\td"}
    assert server.request("PATCH", url, data=form_of("other", [more])).json()["name"] == "other"
    found = client.get_multilingual_glossary_entries(made.json()["glossary_id"], "EN", "FR")
    assert found.dictionaries[0].entries == "a\tfr\nc\td"


@pytest.mark.parametrize("body, message", [
    (form_of("a", [PART] * 65), "Value for 'dictionaries' not supported: expected at most 64"),
    ({"name": "a", "dictionaries[999].entries": "a"}, "Value for 'dictionaries' not supported"),
    ({"name": "a", "dictionaries[1].entries": "a"}, "Parameter 'source_lang' not specified"),
    ({"name": "a", "dictionaries[18446744073709551616].entries": "a"},
     "Value for 'dictionaries' not supported"),
])
def test_dictionaries_in_a_form_that_are_refused(server, body, message):
    reply = server.post("/v3/glossaries", data=body)
    assert reply.status_code == 400 and reply.json()["message"].startswith(message), reply.text


def test_refused_changes(server, client):
    made = make(server).json()["glossary_id"]
    url = f"/v3/glossaries/{made}"
    part = {"source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
    assert server.request("PATCH", url, json={}).status_code == 400
    twice = {"dictionaries": [part, {**part, "target_lang": "fr"}]}
    assert server.request("PATCH", url, json=twice).status_code == 400
    parts = url + "/dictionaries"
    assert server.request("PUT", parts, json={**part, "entries": "a"}).status_code == 400
    assert server.request("DELETE", parts).status_code == 400
    assert server.request("DELETE", parts + "?source_lang=en&target_lang=fr").status_code == 404
    wrong = server.post(url, json={})
    assert wrong.status_code == 405
    for reply in (wrong, server.request("OPTIONS", url)):
        assert reply.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
    assert server.get(f"/v3/glossaries/{made}0").status_code == 404
    assert server.request("DELETE", url + "0").status_code == 404
    of_none = url + "0/dictionaries?source_lang=en&target_lang=de"
    assert server.request("DELETE", of_none).status_code == 404
    assert server.get(f"/v3/glossaries/{made}").json()["dictionaries"][0]["entry_count"] == 1


def test_changes_at_once_are_all_made(server, client):
    """Each starts from what the others have made of it."""
    made = make(server, "t\tt").json()["glossary_id"]
    url = f"/v3/glossaries/{made}"

    def patch(i):
        entries = "\n".join(f"term {i} {k}\tx" for k in range(2000))  # enough for the pool
        reply = server.request("PATCH", url, json={"dictionaries": [
            {"source_lang": "en", "target_lang": "de", "entries": entries,
             "entries_format": "tsv"}]})
        assert reply.status_code == 200, reply.text
    threads = [threading.Thread(target=patch, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.get(f"/v3/glossaries/{made}").json()["dictionaries"][0]["entry_count"] == 16001


# ---- Limits --------------------------------------------------------------------------------------


def test_bounded_in_number_and_memory(serve):
    server = serve(max_glossaries=2, max_glossary_bytes=100000)
    client = deepl.DeepLClient("k", server_url=server.url)
    assert make(server, "\n".join(f"term{i}\tx" for i in range(5000))).status_code == 413
    first = make(server)
    assert first.status_code == 201 and make(server).status_code == 201
    with pytest.raises(deepl.QuotaExceededException, match="at most 2"):
        client.create_glossary("mine", "EN", "DE", {"a": "b"})
    client.delete_glossary(first.json()["glossary_id"])
    assert make(server).status_code == 201
    metrics = server.get("/metrics").text
    assert "acre_glossaries 2\n" in metrics
    assert 100 < float(re.search(r"^acre_glossary_bytes (\S+)", metrics, re.M)[1]) < 100000
    off = serve(max_glossaries=0)
    assert make(off).status_code == 403


def test_ten_thousand_entries(client):
    entries = {f"Source-${i}": f"Target-${i}" for i in range(10000)}
    made = client.create_glossary("large", "EN", "DE", entries)
    assert made.entry_count == 10000
    assert client.get_glossary_entries(made) == entries


# ---- The store -----------------------------------------------------------------------------------


def add_key(store, name):
    command = [ACRE, "keys", "add", name, "--store", store]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


def test_glossaries_survive_a_restart(serve, tmp_path):
    path = tmp_path / "store.db"
    key = add_key(path, "ann")
    server = serve(store=path)
    client = deepl.DeepLClient(key, server_url=server.url)
    gone = client.create_glossary("gone", "EN", "DE", {"a": "b"})
    kept = client.create_multilingual_glossary("kept", [
        Entries("EN", "DE", ODD_ENTRIES), Entries("DE", "EN", {"Hallo": "Hello"})])
    client.update_multilingual_glossary_name(kept, "still kept")
    client.update_multilingual_glossary_dictionary(kept, Entries("DE", "EN", {"Tag": "day"}))
    client.delete_glossary(gone)
    assert server.stop() == 0
    client = deepl.DeepLClient(key, server_url=serve(store=path).url)
    found = client.list_multilingual_glossaries()
    assert [g.glossary_id for g in found] == [kept.glossary_id]
    assert found[0].name == "still kept" and found[0].creation_time == kept.creation_time
    assert [d.entry_count for d in found[0].dictionaries] == [5, 2]
    entries = client.get_multilingual_glossary_entries(kept, "EN", "DE").dictionaries[0].entries
    assert convert_tsv_to_dict(entries) == ODD_ENTRIES


def test_what_the_store_does_not_take_is_undone(serve, tmp_path):
    path = tmp_path / "store.db"
    server = serve(store=path)
    made = make(server).json()["glossary_id"]
    with sqlite3.connect(path) as db:
        db.execute("CREATE TRIGGER no1 BEFORE INSERT ON dictionaries "
                   "BEGIN SELECT raise(ABORT, 'no room'); END")
        db.execute("CREATE TRIGGER no2 BEFORE DELETE ON glossaries "
                   "BEGIN SELECT raise(ABORT, 'no room'); END")
    refused = make(server)
    assert refused.status_code == 503 and refused.json()["code"] == "store_failed"
    assert server.request("DELETE", f"/v2/glossaries/{made}").status_code == 503
    part = {"source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
    url = f"/v3/glossaries/{made}"
    assert server.request("PUT", url + "/dictionaries", json=part).status_code == 503
    assert [g["glossary_id"] for g in server.get("/v2/glossaries").json()["glossaries"]] == [made]
    assert server.get(f"/v2/glossaries/{made}/entries").text == "Hello\tHallo"
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER no1")
        db.execute("DROP TRIGGER no2")
    assert server.request("PUT", url + "/dictionaries", json=part).status_code == 200
    assert server.request("DELETE", f"/v2/glossaries/{made}").status_code == 204
    assert json.loads(server.get("/v3/glossaries").text) == {"glossaries": []}


def test_several_changes_that_the_store_does_not_take_are_undone(serve, tmp_path):
    """Also those that replace what failed before them: what is stored is what comes back."""
    path = tmp_path / "store.db"
    server = serve(store=path)
    made = make(server).json()["glossary_id"]
    url = "/v3/glossaries"

    def names():
        return [g["name"] for g in server.get("/v3/glossaries").json()["glossaries"]]

    with closing(sqlite3.connect(path, isolation_level=None)) as db, ThreadPoolExecutor() as pool:
        db.execute("BEGIN IMMEDIATE")  # so that all of them wait
        db.execute("CREATE TRIGGER no BEFORE UPDATE ON facts "
                   "BEGIN SELECT raise(ABORT, 'no room'); END")
        changes = []
        for name in ("second", "third"):
            changes.append(pool.submit(server.request, "PATCH", f"{url}/{made}",
                                       json={"name": name}))
            assert eventually(lambda name=name: names() == [name])
        changes.append(pool.submit(make, server, name="gone"))
        assert eventually(lambda: names() == ["third", "gone"])
        gone = server.get("/v3/glossaries").json()["glossaries"][1]["glossary_id"]
        changes.append(pool.submit(server.request, "DELETE", f"{url}/{gone}"))
        assert eventually(lambda: names() == ["third"])
        db.execute("COMMIT")
        assert [change.result().status_code for change in changes] == [503] * 4
        assert names() == ["mine"]
        db.execute("DROP TRIGGER no")
    assert server.request("PATCH", f"{url}/{made}", json={"name": "third"}).status_code == 200
    assert server.stop() == 0
    server = serve(store=path)
    assert names() == ["third"]


def test_each_key_has_its_own(serve, tmp_path):
    path = tmp_path / "store.db"
    keys = [add_key(path, name) for name in ("ann", "bob")]
    server = serve(store=path)
    ann, bob = (deepl.DeepLClient(key, server_url=server.url) for key in keys)
    made = ann.create_glossary("mine", "EN", "DE", {"teacher": "Lehrkraft"})
    assert [g.glossary_id for g in ann.list_glossaries()] == [made.glossary_id]
    assert bob.list_glossaries() == []
    assert server.get("/v2/glossaries").json() == {"glossaries": []}
    for call in (bob.get_glossary, bob.get_glossary_entries, bob.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            call(made.glossary_id)
    english = {"source_lang": "EN", "target_lang": "DE", "glossary": made.glossary_id}
    assert ann.translate_text("Teacher", **english).text == "Lehrkraft"
    with pytest.raises(deepl.DeepLException, match="Glossary not found"):
        bob.translate_text("Teacher", **english)
    fields = {"q": "Teacher", "source": "en", "target": "de", "glossary_id": made.glossary_id}
    assert server.post(json=fields).status_code == 404
    assert server.post(json={**fields, "api_key": keys[0]}).json()["translatedText"] == "Lehrkraft"
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("acre-wrong", server_url=server.url).list_glossaries()
