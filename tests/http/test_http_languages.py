"""Models of many languages over HTTP: what is listed, what is chosen, and by what names."""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from acre_server import ROOT, Server
from browser import Browser

MANY = ROOT / "tests/golden/multilingual"
TEXT = "Where is the bus stop?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """NLLB beside a model of one pair, English to German."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(MANY / "nllb-many", folder / "nllb-many")
    shutil.copytree(ROOT / "tests/golden/models/tiny-token", folder / "tiny-token")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    server = Server(folder)
    yield server
    assert server.stop() == 0, "".join(server.log)


@pytest.fixture(scope="module")
def many():
    """NLLB alone."""
    server = Server(MANY / "nllb-many")
    yield server
    assert server.stop() == 0, "".join(server.log)


def translate(server, **fields):
    return server.post("/translate", json={"q": TEXT, **fields})


def text_of(reply):
    assert reply.status_code == 200, reply.text
    return reply.json()["translatedText"]


def test_languages_are_listed_once(server):
    start = time.monotonic()
    languages = server.get("/languages").json()
    assert time.monotonic() - start < 1
    codes = [language["code"] for language in languages]
    assert len(codes) == len(set(codes)) == 202
    by_code = {language["code"]: language for language in languages}
    assert by_code["zh-Hant"]["name"] == "Chinese (Traditional)"
    assert {"de", "zh", "zh-Hant"} <= set(by_code["en"]["targets"])
    assert all(code not in language["targets"] and len(set(language["targets"])) == 201
               for code, language in by_code.items())


def test_models_tell_their_languages(server):
    models = {model["name"]: model for model in server.get("/models").json()["models"]}
    assert models["tiny-token"]["sources"] == ["en"]
    assert models["tiny-token"]["targets"] == ["de"]
    many = models["nllb-many"]
    assert (many["source"], many["target"]) == ("en", "") and len(many["targets"]) == 202


def test_the_page_and_the_interface_list_them(server):
    page = server.get("/").text
    assert '<option value="zh-Hant">Chinese (Traditional)</option>' in page
    document = json.dumps(server.get("/openapi.json").json())
    assert '"zh-Hant"' in document and '"source", "target"' in document


def test_a_pair_is_for_the_model_of_fewest_languages(server):
    own = text_of(translate(server, model="tiny-token"))
    assert text_of(translate(server, source="en", target="de")) == own
    many = text_of(translate(server, source="en", target="de", model="nllb-many"))
    assert many != own
    french = text_of(translate(server, source="en", target="fr"))
    assert french == text_of(translate(server, source="en", target="fr", model="nllb-many"))


@pytest.mark.parametrize("names", (("eng_Latn", "zho_Hant"), ("EN", "zh-TW"), ("en", "zh_HK"),
                                   ("eng", "ZH-hant")))
def test_languages_have_many_names(server, names):
    expected = text_of(translate(server, source="en", target="zh-Hant"))
    assert text_of(translate(server, source=names[0], target=names[1])) == expected


def test_the_source_is_detected_among_all(server):
    reply = server.post("/translate", json={"q": "Wo ist denn hier die Bushaltestelle, bitte?",
                                            "source": "auto", "target": "en"})
    assert reply.json()["detectedLanguage"]["language"] == "de"
    reply = server.post("/translate/nllb-many", json={
        "q": "Où se trouve l'arrêt de bus, s'il vous plaît ?", "source": "auto", "target": "en"})
    assert reply.json()["detectedLanguage"]["language"] == "fr"
    detected = server.post("/detect", json={"q": "Где находится автобусная остановка?"}).json()
    assert detected[0]["language"] == "ru"


@pytest.mark.parametrize("fields, status, code, words", (
    ({"source": "xx", "target": "de"}, 400, "language_not_supported", "xx"),
    ({"source": "en", "target": "en-XX"}, 400, "language_not_supported", "en-XX"),
    ({"model": "nllb-many"}, 400, "missing_parameter", "target"),
    ({"model": "nllb-many", "target": "xx"}, 400, "model_mismatch",
     "target: expected a language as in model nllb-many, found xx"),
    ({"model": "tiny-token", "target": "fr"}, 400, "model_mismatch", "fr"),
    ({"source": "en", "target": "fr", "level": "char"}, 400, "level_not_available", "char"),
    ({"source": "fr", "target": "fra"}, 400, "pair_not_available", "French"),
    ({"model": "nllb-many", "target": "en"}, 400, "pair_not_available", "English"),
    ({"source": "e" * 5000, "target": "fr"}, 400, "language_not_supported", "eee"),
    ({"source": "en\u0000", "target": "fr"}, 400, None, ""),
))
def test_what_cannot_be_chosen(server, fields, status, code, words):
    reply = translate(server, **fields)
    assert reply.status_code == status, reply.text
    assert (code is None or reply.json()["code"] == code) and words in reply.json()["error"]


def test_defaults_of_a_model(server):
    expected = text_of(translate(server, source="en", target="fr", model="nllb-many"))
    assert text_of(translate(server, target="fr", model="nllb-many")) == expected


def test_deepl_lists_and_chooses(server):
    targets = {language["language"] for language in
               server.get("/v2/languages?type=target").json()}
    assert {"DE", "EN-GB", "ZH", "ZH-HANT", "PT-BR"} <= targets
    sources = [language["language"] for language in server.get("/v2/languages").json()]
    assert len(sources) == len(set(sources)) == 202
    expected = text_of(translate(server, source="en", target="zh-Hant"))
    for code in ("ZH-HANT", "zh-Hant"):
        reply = server.post("/v2/translate", json={"text": [TEXT], "source_lang": "EN",
                                                   "target_lang": code})
        assert reply.json()["translations"][0]["text"] == expected
    portuguese = server.post("/v2/translate", json={"text": [TEXT], "source_lang": "EN",
                                                    "target_lang": "PT-BR"})
    assert portuguese.json()["translations"][0]["text"] == text_of(
        translate(server, source="en", target="pt"))


def test_a_text_without_letters_is_in_a_language_that_fits(server):
    """English where that is translated to the target, as LibreTranslate has it."""
    def detected(**fields):
        reply = server.post("/translate", json={"q": "👍 42", "source": "auto", **fields})
        assert reply.status_code == 200, reply.text
        return reply.json()["detectedLanguage"]

    assert detected(target="de") == {"language": "en", "confidence": 0}
    assert detected(target="en")["language"] != "en"
    assert detected(target="fr", model="nllb-many") == {"language": "en", "confidence": 0}
    assert server.post("/detect", json={"q": "👍"}).json() == [{"language": "en", "confidence": 0}]
    reply = server.post("/v2/translate", json={"text": ["👍"], "target_lang": "EN-GB"})
    assert reply.status_code == 200


def cpu_seconds(server):
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_languages_are_not_looked_up_for_each_pair(many):
    """What is refused costs the loop little, in a server of many languages too."""
    seconds = {}
    for source in ("en", "auto"):
        before = cpu_seconds(many)
        for _ in range(300):
            assert many.post("/translate", json={"q": "1", "source": source,
                                                 "target": "qq"}).status_code == 400
        seconds[source] = cpu_seconds(many) - before
    assert seconds["auto"] < 3 * seconds["en"] + 0.1


def test_a_text_without_letters_goes_into_the_language_of_the_model(serve, tmp_path):
    """Which the request need not say, and which is not the one it is taken to be in."""
    folder = tmp_path / "into-english"
    shutil.copytree(MANY / "nllb-many", folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tgt_lang": "eng_Latn"}))
    server = serve(models=folder)
    for target in ({}, {"target": "en"}):
        reply = server.post("/translate/into-english", json={"q": "👍", "source": "auto", **target})
        assert reply.status_code == 200, reply.text
        assert reply.json()["detectedLanguage"]["language"] != "en"


def test_a_model_that_is_named_detects_among_its_own_languages(serve, tmp_path):
    """mBART-50 has no traditional Chinese, which NLLB beside it has, and no Welsh."""
    folder = tmp_path / "models"
    shutil.copytree(MANY / "nllb-many", folder / "nllb-many")
    shutil.copytree(MANY / "mbart-many", folder / "mbart-many")
    server = serve(models=folder)
    found = {}
    for model in ("nllb-many", "mbart-many"):
        reply = server.post(f"/translate/{model}", json={
            "q": "請問最近的公車站在哪裡？我想去火車站買票。", "source": "auto", "target": "en"})
        assert reply.status_code == 200, reply.text
        found[model] = reply.json()["detectedLanguage"]["language"]
    reply = server.post("/translate/mbart-many", json={
        "q": "Mae'r trên nesaf yn gadael am hanner awr wedi pedwar o'r orsaf newydd.",
        "source": "auto", "target": "en"})
    assert reply.status_code == 400
    assert "expected a language that this model translates from" in reply.json()["message"]
    assert "cy" not in reply.json()["message"].split("found")[0]
    assert found == {"nllb-many": "zh-Hant", "mbart-many": "zh"}


@pytest.mark.parametrize("source, target", (("en", "de"), ("eng_Latn", "deu_Latn"),
                                            ("eng", "DE")))
def test_a_glossary_is_found_by_every_name_of_its_languages(server, source, target):
    made = server.post("/v2/glossaries", json={
        "name": "stops", "source_lang": "en", "target_lang": "de", "entries": "bus stop\tHalt",
        "entries_format": "tsv"}).json()
    reply = translate(server, source=source, target=target, glossary_id=made["glossary_id"])
    assert reply.status_code == 200, reply.text
    other = translate(server, source="en", target="fr", glossary_id=made["glossary_id"])
    assert other.json()["code"] == "dictionary_not_found"


def test_pairs_of_glossaries_are_listed_once(server):
    pairs = [tuple(pair.values()) for pair in
             server.get("/v2/glossary-language-pairs").json()["supported_languages"]]
    assert len(pairs) == len(set(pairs)) > 30000
    assert ("en", "zh") in pairs
    assert all(source != target and "-" not in source + target for source, target in pairs)


def test_pairs_of_glossaries_are_those_of_any_region(serve, tmp_path):
    """One model has Brazilian Portuguese, another the European."""
    for source, target in (("en", "pt-BR"), ("fr", "pt-PT"), ("en", "pt-PT")):
        folder = tmp_path / f"{source}-{target}"
        shutil.copytree(ROOT / "tests/golden/models/tiny-token", folder)
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) |
                                   {"source_lang": source, "target_lang": target}))
    server = serve(models=tmp_path)
    pairs = server.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert sorted(tuple(pair.values()) for pair in pairs) == [("en", "pt"), ("fr", "pt")]


def test_norwegian_is_what_deepl_calls_it(serve, tmp_path):
    """Models are for "no"."""
    folder = tmp_path / "models/en-no"
    shutil.copytree(ROOT / "tests/golden/models/tiny-token", folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) |
                               {"source_lang": "en", "target_lang": "no"}))
    server = serve(models=folder.parent)
    assert [each["language"] for each in server.get("/v2/languages?type=target").json()] == ["NB"]
    found = server.get("/v3/languages?resource=translate_text").json()
    assert [each["lang"] for each in found] == ["en", "nb"]
    pairs = server.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert pairs == [{"source_lang": "en", "target_lang": "nb"}]
    made = server.post("/v2/glossaries", json={"name": "a", "source_lang": "EN",
                                               "target_lang": "NB", "entries": "bus\tBUSS",
                                               "entries_format": "tsv"}).json()
    reply = server.post("/v2/translate", json={"text": ["The bus stops here."],
                                               "source_lang": "EN", "target_lang": "NB",
                                               "glossary_id": made["glossary_id"]})
    assert "BUSS" in reply.json()["translations"][0]["text"]
    norwegian = "Hvor er nærmeste bussholdeplass? Jeg skal til sentrum i ettermiddag."
    kept = server.post("/v2/translate", json={"text": [norwegian], "target_lang": "NB"}).json()
    assert kept["translations"][0]["text"] == norwegian
    assert kept["translations"][0]["detected_source_language"] == "NB"


def test_a_model_that_tells_no_language_is_called_by_its_name(serve, tmp_path):
    folder = tmp_path / "models/mine"
    shutil.copytree(ROOT / "tests/golden/models/tiny-token", folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["source_lang"], settings["target_lang"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    server = serve(models=folder.parent)
    text = text_of(server.post("/translate/mine", json={"q": TEXT}))
    assert text_of(server.post("/translate/mine", json={"q": TEXT, "source": "auto"})) == text
    named = server.post("/translate/mine", json={"q": TEXT, "source": "en"})
    assert named.json()["code"] == "model_mismatch"


def test_the_page_offers_what_models_of_many_languages_translate(server, many):
    page = many.get("/").text
    assert re.search('<option value="en" selected>.*<option value="ace-Arab" selected>', page,
                     re.DOTALL)
    settings = many.get("/frontend/settings").json()["language"]
    assert (settings["source"]["code"], settings["target"]["code"]) == ("en", "ace-Arab")
    browser = Browser()
    try:
        for of in (many, server):
            browser.open(of.url + "/?source=fr&target=zh-Hant")
            same = browser.find('#target option[value="fr"]')
            browser.wait(lambda: same.get_attribute("disabled"))
            assert browser.find("#target").get_attribute("value") == "zh-Hant"
            assert browser.find("#level").get_attribute("value") == "token"
            assert len(browser.find_all("#target option:disabled")) == 1
            browser.find("#q").send_keys("Où est le bus ?")
            browser.wait(lambda: browser.text("#result"))
            assert browser.text("#error") == "" and browser.complaints() == []
    finally:
        browser.close()
