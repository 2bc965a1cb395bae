"""Files, as LibreTranslate translates them: what comes out, what is refused, who may have it."""

import html
import http.client
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree

import pytest
import requests
from acre_server import PATIENCE, ROOT, SENTENCE, Server, eventually

PAIR = {"source": "en", "target": "de"}
SRT = """1
00:00:01,000 --> 00:00:02,500
<i>Where is the train station?</i>

2
00:00:03,000 --> 00:00:06,000 X1:1 X2:2
{\\an8}I am looking for the house of
my old friend and his dog,
but nobody is at home.

3
00:00:07,000 --> 00:00:08,000
- Good morning!
- R&D <b>sleeps</b>.

4
00:00:09,000 --> 00:00:10,000
42

"""
VTT = """WEBVTT - A test

STYLE
::cue { color: red }

NOTE Nobody translates this note.

first
00:01.000 --> 00:02.500 line:0
<v Ann>Where is the train station?</v>

00:03.000 --> 00:04.000
AT&amp;T sleeps
in the green house.

NOTE The end.
"""


@pytest.fixture(scope="module")
def shipped():
    server = Server(ROOT / "models")
    yield server
    assert server.stop() == 0, "".join(server.log)


def upload(server, name, data, **fields):
    data = data.encode() if isinstance(data, str) else data
    return server.post("/translate_file", files={"file": (name, data)}, data={**PAIR, **fields})


def download(server, name, data, **fields):
    reply = upload(server, name, data, **fields)
    assert reply.status_code == 200, reply.text
    assert list(reply.json()) == ["translatedFileUrl"]
    found = requests.get(reply.json()["translatedFileUrl"], timeout=10)
    assert found.status_code == 200
    return found


# ---- What comes out ------------------------------------------------------------------------------


def test_text(server):
    text = f"{SENTENCE}\r\n\r\n  Good morning.\n\ttab\n"
    found = download(server, "letter.txt", text)
    assert found.content.decode() == server.translate(text).json()["translatedText"]
    assert found.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert found.headers["Content-Disposition"] == \
        "attachment; filename=\"letter_de.txt\"; filename*=UTF-8''letter_de.txt"
    assert found.headers["X-Content-Type-Options"] == "nosniff"


def test_auto_and_other_fields(server):
    assert download(server, "a.txt", SENTENCE, source="auto").text == \
        server.translate().json()["translatedText"]
    assert download(server, "a.txt", SENTENCE, target="fr", level="char").text == \
        server.translate(target="fr").json()["translatedText"]
    assert download(server, "a.txt", SENTENCE, max_length=2).text == \
        server.translate(max_length=2).json()["translatedText"]
    by_model = server.post("/translate_file", files={"file": ("a.txt", SENTENCE)},
                           data={"model": "en-fr-char"})
    assert by_model.json()["translatedFileUrl"].endswith(".a_fr.txt")
    german = "Guten Morgen, wie geht es Ihnen heute Abend?"
    kept = server.post("/translate_file", files={"file": ("a.txt", german)},
                       data={"model": "en-de-token", "source": "auto"})
    assert kept.json()["translatedFileUrl"].endswith(".a_de.txt")


def test_page(shipped):
    page = ('<!DOCTYPE html>\n<html><head><meta charset=utf-8><title>The dog</title>'
            '<style>p {}</style></head>\n'
            '<body><p>The <b>dog</b> sleeps &amp; eats.</p><code>x &lt; y</code></body></html>\n')
    found = download(shipped, "Page.HTML", page)
    assert found.headers["Content-Type"] == "text/html; charset=utf-8"
    assert found.headers["Content-Security-Policy"] == "sandbox"
    assert re.findall("<[^>]*>", found.text) == re.findall("<[^>]*>", page)
    assert "<title>Der Hund</title>" in found.text and "<b>Hund</b>" in found.text
    assert "<code>x &lt; y</code>" in found.text and "&amp;amp;" not in found.text
    with_title = download(shipped, "a.html", '<img alt="The dog sleeps.">',
                          translate_attributes="true")
    assert with_title.text == '<img alt="Der Hund schl&#228;ft.">'


def test_empty_elements_of_xhtml_hide_nothing(shipped):
    page = ('<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><head>'
            '<script src="a.js"/><title/><style/></head><body><p><code/>The dog sleeps.</p>'
            '<iframe/><textarea/><svg><style/></svg><p>Hello!</p></body></html>')
    text = download(shipped, "a.xhtml", page).content.decode()
    assert re.findall("<[^>]*>", text) == re.findall("<[^>]*>", page)
    assert "<code/>Der Hund schläft.</p>" in text and "<p>Hallo!</p>" in text


@pytest.mark.parametrize("text", [
    "<p>A&#160;dog.</p><p>&#160;</p>", "<p>See &lt;http://example.com/&gt; for more.</p>",
])
def test_xhtml_stays_well_formed(server, text):
    doctype = '<!DOCTYPE html [\n<!ENTITY co "Acme">\n]>'
    page = f'{doctype}<html xmlns="http://www.w3.org/1999/xhtml"><body>{text}</body></html>'
    content = download(server, "a.xhtml", page).content
    found = ElementTree.fromstring(content)
    assert content.decode().startswith(doctype)
    assert [e.tag for e in found.iter()] == [e.tag for e in ElementTree.fromstring(page).iter()]


def test_sections_of_xml_are_translated(shipped):
    """As plain text, or as the page that they are where they have tags, as in feeds."""
    page = ("<n><![CDATA[Where is my train & your dog?]]><p>Good morning!</p>"
            "<![CDATA[<p>Where is <b>my train</b>?</p><p>Tom &amp; Ann.</p>]]>"
            "<![CDATA[ ]]&<> ]]></n>")
    text = download(shipped, "a.xhtml", page).content.decode()
    found = ElementTree.fromstring(text)
    assert text.count("<![CDATA[") == text.count("]]>") == 3
    assert found.text.startswith("Wo ist mein Zug") and "&amp;" not in found.text
    assert found[0].text == "Guten Morgen!"
    assert found[0].tail.startswith("<p>Wo ist <b>mein Zug</b>?</p><p>Tom ")
    assert found[0].tail.endswith("</p> ]]&<> ")


@pytest.mark.parametrize("name, says, is_kept_ascii", [
    ("a.html", '<meta charset="iso-8859-1">', True),
    ("a.html", "<META http-equiv=Content-Type content='text/html; CHARSET=windows-1252'>", True),
    ("a.html", '<?xml version="1.0" encoding="us-ascii"?>', True),
    ("a.html", '<?xml version="1.0" encoding="utf-8"?><meta charset=ascii>', True),
    ("a.html", "", True), ("a.htm", "<script charset=utf-8></script>", True),
    ("a.html", '<meta charset="utf-8">', False), ("a.htm", "<meta charset=UTF-8>", False),
    ("a.html", "<meta charset = 'utf-8'>", False), ("a.xhtml", "", False),
    ("a.xhtml", '<?xml version="1.0" encoding="us-ascii"?>', True),
    ("a.xhtml", "<?xml version='1.0' encoding = 'UTF-8'?>", False),
    ("a.html", '<meta charset="', True), ("a.html", "<meta charset", True),
])
def test_page_in_ascii_stays_so_unless_it_says_utf_8(shipped, name, says, is_kept_ascii):
    found = download(shipped, name, f"{says}<p>The door is green.</p>").content
    assert found.isascii() is is_kept_ascii
    assert "Tür ist grün" in html.unescape(found.decode()) or says.endswith('="')


def test_sections_of_xml_in_ascii_stay_so(shipped):
    """No reference is read in there; nor where a comment looks like one."""
    page = ('<?xml version="1.0" encoding="ISO-8859-1"?><n><!-- <![CDATA[ --><p>The beautiful door.'
            "</p><![CDATA[The beautiful door.]]></n>")
    found = download(shipped, "a.xhtml", page).content
    assert found.isascii() and found.startswith(page.split("<p>")[0].encode())
    whole = ElementTree.fromstring(found)
    assert whole[0].text == whole[0].tail and "schöne" in whole[0].text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize("rest", ["", " standalone='yes'", " "])
def test_xhtml_says_the_encoding_that_it_has(server, encoding, rest):
    page = (f'<?xml version="1.0" encoding="UTF-16"{rest}?>\n<html><body>'
            "<p>Zoë sleeps.</p></body></html>")
    found = download(server, "a.xhtml", page.encode(encoding)).content
    assert found.startswith(f'\ufeff<?xml version="1.0"{rest}?>\n'.encode())
    assert ElementTree.fromstring(found)[0][0].tag == "p"


def check_subtitles(found, source):
    """Numbers, times and blank lines are the same; speeches have as many lines."""
    def frame(text):
        return [line if "-->" in line or not line.strip() or line.strip().isdigit() else "speech"
                for line in text.split("\n")]
    assert frame(found) == frame(source)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_subrip(shipped, end):
    found = download(shipped, "film.srt", SRT.replace("\n", end))
    assert found.headers["Content-Type"] == "application/x-subrip; charset=utf-8"
    text = found.content.decode()
    assert text.count(end) == SRT.count("\n")
    text = text.replace(end, "\n")
    assert "\r" not in text
    check_subtitles(text, SRT)
    assert "<i>Wo ist der Bahnhof?</i>\n" in text
    assert "\n{\\an8}Ich " in text
    assert "- Guten Morgen!\n- R&D <b>" in text
    lines = text.split("\n")[6:9]
    assert max(map(len, lines)) <= 2 * min(map(len, lines)), lines


def test_no_line_begins_with_what_ends_a_word_in_french(shipped):
    speeches = ["How are you?\nI am fine.", "Who did this?\nNot me.", "JOHN: Run!\nNow!",
                "It costs 50 %\nof the price.", "♪ Singing in the rain ♪\n[DOOR CLOSES]",
                "Is it true?\nIs it?\nWhat do you say?"]
    text = "".join(f"{i + 1}\n00:00:0{i},000 --> 00:00:0{i + 1},000\n{speech}\n\n"
                   for i, speech in enumerate(speeches))
    found = download(shipped, "film.srt", text, target="fr").content.decode()
    check_subtitles(found, text)
    assert " ?" in found and " %" in found
    assert not re.search(r"\n[?!:;%»]|[^0]\n♪|«\n", found), found


def test_webvtt(shipped):
    text = download(shipped, "film.vtt", VTT).content.decode()
    check_subtitles(text, VTT)
    for kept in ("WEBVTT - A test", "::cue { color: red }", "NOTE Nobody translates this note.",
                 "\nfirst\n", "<v Ann>Wo ist der Bahnhof?</v>", "AT&amp;T", "NOTE The end."):
        assert kept in text, text


def test_times_within_a_cue_stay_in_their_order(shipped):
    text = ("WEBVTT\n\n00:00.000 --> 00:02.000\n"
            "I see<00:00:00.480><c> the old</c><00:00:01.000><c> house.</c>\n")
    found = download(shipped, "film.vtt", text).content.decode()
    assert re.findall(r"<\d[^>]*>", found) == ["<00:00:00.480>", "<00:00:01.000>"]
    assert re.sub("<[^>]*>", "", found).endswith("\nIch sehe das alte Haus.\n")
    assert "&lt;" not in found


@pytest.mark.parametrize("speech", [
    r"{\i1}The dog sleeps.{\i0}", "{\\an8\\fnArial Black}The dog sleeps,\n{\\i0}and I am here.",
    r"{\i1}The dog sleeps,{\i0} and my {\b1}old{\b0} friend eats.",
])
def test_codes_of_subtitles_are_kept(shipped, speech):
    times = "1\n00:00:01,000 --> 00:00:02,000\n"
    found = download(shipped, "film.srt", f"{times}{speech}\n").content.decode()
    assert re.findall(r"{\\[^}]*}", found) == re.findall(r"{\\[^}]*}", speech)
    assert "Der Hund schläft" in " ".join(re.sub("{[^}]*}", "", found).split())
    assert found.count("\n") == f"{times}{speech}\n".count("\n")


@pytest.mark.parametrize("text", [
    "1\n00:00:01,000 --> 00:00:02,000\n", "00:01.0 --> 00:02.0\nHi.",
    "\n\n1\n0:1:2,3 --> 0:1:3,4\n\n",
    "1\n00:00:01,000 --> 00:00:02,000\nHi.\n2\n00:00:03,000 --> 00:00:04,000\nYou.\n",
    "1\n00:00:01,000 --> 00:00:02,000\nHi.\n\nYou.\n\n2\n00:00:03,000 --> 00:00:04,000\n<i></i>\n",
    "1\r\n00:00:01,000 --> 00:00:02,000\r\nHi\r\nyou\r\nall.\r\n",
    "1\n00:00:01,0 --> 00:00:02,0\n<i>Hi\n<b>you</i>\n\n2\n00:00:03,0 --> 00:00:04,0\n</b>a <3\n",
    "1\n00:00:01,0 --> 00:00:02,0\n{\\an8}\n{\\an8\nx <!--\n\n2\n00:00:03,0 --> 00:00:04,0\n--> x",
])
def test_odd_subtitles_keep_their_frame(server, text):
    found = download(server, "a.srt", text).content.decode()
    times = r"(?m)^(?:\d+\r?\n)?\d.*-->.*$"
    assert re.findall(times, found) == re.findall(times, text)
    assert sorted(re.findall("</?[a-z]>", found)) == sorted(re.findall("</?[a-z]>", text))
    assert not re.search(r"\n\n", found) or re.search(r"\n\n", text)


def test_speakers_keep_their_dashes(server):
    text = "1\n0:0:1,0 --> 0:0:2,0\n- Hi.\n{\\an8}–You.\n—  We.\n-\n- \n"
    found = download(server, "a.srt", text).content.decode()
    dashes = r"(?m)^(?:{\\an8})?[-–—] *"
    assert re.findall(dashes, found) == re.findall(dashes, text)
    assert len(re.findall(dashes, text)) == 5


def test_terms_of_a_glossary(server):
    """As a form of /translate brings them."""
    terms = "friend\tZug"
    found = download(server, "a.txt", SENTENCE, glossary=terms).content.decode()
    assert "Zug" in found
    assert found == server.translate(SENTENCE, glossary=terms).json()["translatedText"]
    assert download(server, "a.txt", SENTENCE, glossary="").status_code == 200
    reply = upload(server, "a.txt", SENTENCE, glossary="no tab")
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_entries")


# ---- Encodings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marked_encodings(server, encoding):
    """What had a mark has one, in UTF-8."""
    found = download(server, "a.txt", f"{SENTENCE} 🙂".encode(encoding)).content
    assert found.startswith(b"\xef\xbb\xbf")
    assert found.decode("utf-8-sig") == \
        server.translate(f"{SENTENCE} 🙂").json()["translatedText"]
    big = download(server, "a.txt", b"\xfe\xff" + f"{SENTENCE} 🙂".encode("utf-16-be")).content
    assert big == download(server, "a.txt", f"{SENTENCE} 🙂".encode("utf-8-sig")).content


@pytest.mark.parametrize("data, words", [
    ("Hello.\nGrüße".encode("latin-1"), "byte 0xFC in line 2, column 3"),
    ("Hello".encode("utf-16-le"), "byte 0x00 in line 1, column 2"),
    (b"\xff\xfea", "UTF-16"), (b"\xff\xfe\x00\xd8", "half a character"),
    (b"\xfe\xff\x00\x00", "byte 0x00"), (b"PK\x03\x04\xff", "byte 0xFF"),
])
def test_what_is_no_text_is_refused(server, data, words):
    reply = upload(server, "a.txt", data)
    assert reply.status_code == 400
    assert reply.json()["code"] == "file_not_text"
    assert "a.txt: expected text in UTF" in reply.json()["error"] and words in reply.json()["error"]


# ---- Refusals ------------------------------------------------------------------------------------

NOT_SUPPORTED = ("Invalid request: file format not supported: expected a file name that ends in "
                 "one of .txt, .html, .htm, .xhtml, .srt, .vtt, found ")


@pytest.mark.parametrize("name, data, fields, status, error", [
    ("test.txt", "Hello", {"source": ""}, 400, "Invalid request: missing source parameter"),
    ("test.txt", "Hello", {"target": ""}, 400, "Invalid request: missing target parameter"),
    ("program.exe", b"MZ\x90\x00", {}, 400, NOT_SUPPORTED + ".exe"),
    ("noextension", "Hello", {}, 400, NOT_SUPPORTED + "one without extension"),
    ("test.docx", b"PK", {}, 400, NOT_SUPPORTED + ".docx"),
    ("test.txt", "Hello", {"target": "zz"}, 400, "zz is not supported"),
    ("test.txt", "Hello", {"source": "zz"}, 400, "zz is not supported"),
    ("test.txt", "Bonjour, ceci est un test et je le sais bien.", {"source": "auto"}, 400, None),
    ("test.srt", "Hello", {}, 400, None),
])
def test_refused_as_libretranslate_refuses(server, name, data, fields, status, error):
    reply = upload(server, name, data, **fields)
    assert reply.status_code == status
    assert reply.json()["error"] == (error or reply.json()["error"])


def test_a_long_extension_is_cut_between_characters(server):
    """Or in one, but not in the reply."""
    for i in range(4):
        reply = upload(server, "a." + i * "a" + 20 * "\u20ac", "Hello")
        assert (reply.status_code, reply.json()["code"]) == (400, "file_format_not_supported")
        assert reply.json()["error"].startswith(NOT_SUPPORTED + "." + i * "a" + "\u20ac")


def test_without_a_file(server):
    for kwargs in ({"data": PAIR}, {"json": {**PAIR, "file": "x"}}, {"params": PAIR},
                   {"files": {key: (None, value) for key, value in PAIR.items()}}):
        reply = server.post("/translate_file", **kwargs)
        assert reply.status_code == 400
        assert reply.json()["error"] == "Invalid request: missing file parameter"
    assert server.get("/translate_file").status_code == 405


def test_file_without_a_name_may_have_it_in_a_field(server):
    for kwargs in ({"data": {**PAIR, "file": SENTENCE, "filename": "a.txt"}},
                   {"params": {**PAIR, "file": SENTENCE, "filename": "a.txt"}}):
        assert server.post("/translate_file", **kwargs).status_code == 200
    named = upload(server, "-", SENTENCE, filename="a.txt")  # as curl calls what comes by a pipe
    assert named.status_code == 200 and named.json()["translatedFileUrl"].endswith(".a_de.txt")
    for fields in ({}, {"filename": "letter"}):
        reply = upload(server, "-", SENTENCE, **fields)
        assert (reply.status_code, reply.json()["code"]) == (400, "file_format_not_supported")


def test_files_turned_off(serve):
    server = serve(max_files=0)
    settings = server.get("/frontend/settings").json()
    assert settings["filesTranslation"] is False and settings["supportedFilesFormat"] == []
    reply = upload(server, "a.txt", "Hello")
    assert reply.status_code == 403
    assert reply.json()["error"] == "Files translation are disabled on this server."
    assert server.get("/download_file/anything.txt").status_code == 400
    reply = server.post("/v2/document", files={"file": ("a.txt", "Hello")},
                        data={"source_lang": "EN", "target_lang": "DE"})
    assert (reply.status_code, reply.json()["code"]) == (400, "files_disabled")


def test_empty_and_blank_files(server):
    for data in (b"", b" \n\r\n", "🙂".encode(), b"\xef\xbb\xbf"):
        assert download(server, "a.txt", data).content == data


# ---- Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, clean", [
    ("../../etc/passwd.txt", "passwd_de.txt"), ("C:\\Users\\a b.txt", "a b_de.txt"),
    ("/.txt", "file_de.txt"), ("...txt", "_._de.txt"), ("a\x01\x1b[31m\x7f.txt", "a__[31m__de.txt"),
    ("Grüße 🙂.txt", "Grüße 🙂_de.txt"), ("a\u202etxt.exe.txt", "a_txt.exe_de.txt"),
    ("%2e%2e%2fa.txt", "%2e%2e%2fa_de.txt"), ("a<b>:*?|.txt", "a_b______de.txt"),
    ("x" * 500 + ".txt", "x" * 143 + "_de.txt"), ("ü" * 100 + ".txt", "ü" * 71 + "_de.txt"),
    ("=?utf-8?B?w5xiZXJzaWNodC50eHQ=?=", "Übersicht_de.txt"),
    ("=?utf-8?B?Li4vYi50eHQ=?=", "b_de.txt"), ("=?utf-8?B?!.txt?=/a.txt", "a_de.txt"),
    ('x.txt"; filename*="utf-8\'\'%C3%9Cber+sicht.txt', "Über+sicht_de.txt"),
    ("b.txt\"; filename*=\"latin1''a.txt", "b_de.txt"),
    ("b.txt\"; filename*=\"utf-8''", "b_de.txt"),
    ("b.txt\"; filename*=\"UTF-8'de'..%2f%FFa.txt", "_a_de.txt"),
    ("a;b=c, d.txt", "a;b=c, d_de.txt"), ("a.tar.txt", "a.tar_de.txt"), ("con.txt", "con_de.txt"),
])
def test_names_are_names_and_no_paths(server, name, clean):
    """As a raw body: clients clean names themselves."""
    body = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\nHello\r\n'
            b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
            b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n--x--'
            % name.replace("\\", "\\\\").encode())
    reply = server.post("/translate_file", data=body,
                        headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert reply.status_code == 200, reply.text
    url = urlparse(reply.json()["translatedFileUrl"])
    assert unquote(url.path).split(".", 1)[1] == clean
    assert "/" not in url.path[len("/download_file/"):]
    disposition = requests.get(url.geturl(), timeout=10).headers["Content-Disposition"]
    assert unquote(re.search(r"filename\*=UTF-8''(\S*)$", disposition)[1]) == clean
    assert re.fullmatch(r'attachment; filename="[\w .-]+"; filename\*=UTF-8\'\'[\w.%-]+',
                        disposition, re.ASCII), disposition


def test_a_quote_in_a_name_ends_no_header(server):
    found = download(server, 'a"; x="b.txt', "Hello")
    assert found.headers["Content-Disposition"].count('"') == 2


def test_the_address_is_the_one_that_the_client_uses(server):
    def url(**headers):
        return server.post("/translate_file", files={"file": ("a.txt", "Hello")}, data=PAIR,
                           headers=headers).json()["translatedFileUrl"]
    assert url().startswith(server.url + "/download_file/")
    assert url(Host="translate.example:8080").startswith(
        "http://translate.example:8080/download_file/")
    for header, value, scheme in (
            ("X-Forwarded-Proto", "https", "https"), ("X-Forwarded-Proto", "HTTPS,http", "https"),
            ("X-Forwarded-Proto", "http, https", "http"), ("X-Forwarded-Proto", "httpsx", "http"),
            ("Forwarded", "for=192.0.2.1;proto=https, for=192.0.2.2;proto=http", "https"),
            ("Forwarded", 'For=192.0.2.1;Proto="https";host=a', "https"),
            ("Forwarded", "for=192.0.2.1;proto=http", "http"), ("Forwarded", "proto=", "http")):
        forwarded = url(**{"Host": "translate.example", header: value})
        assert forwarded.startswith(f"{scheme}://translate.example/download_file/"), value
    assert url(Host="[::1]:5000").startswith("http://[::1]:5000/")


# ---- Who may have it -----------------------------------------------------------------------------


def test_names_cannot_be_guessed(server):
    urls = [upload(server, "a.txt", "Hello").json()["translatedFileUrl"] for _ in range(20)]
    tokens = [url.split("/")[-1].split(".")[0] for url in urls]
    assert len({token[:32] for token in tokens}) == len({token[32:] for token in tokens}) == 20
    assert all(re.fullmatch("[0-9A-F]{96}", token) for token in tokens)
    one, other = tokens[:2]
    assert server.get(f"/download_file/{one}").status_code == 200
    assert server.get(f"/download_file/{one}.any.name").status_code == 200
    for wrong in (one[:32] + other[32:], other[:32] + one[32:], "0" * 96,
                  one[:-1] + ("0" if one[-1] != "0" else "1")):
        reply = server.get(f"/download_file/{wrong}.a_de.txt")
        assert reply.status_code == 404, wrong
        assert reply.json()["code"] == "file_not_found"


@pytest.mark.parametrize("name", ["..", "../../etc/passwd", "%2e%2e%2fx", "a", "x" * 3000, "%00",
                                  "0" * 95, "0" * 97, "0" * 96 + "/..", "-1" * 48, "+" * 96])
def test_other_names_are_invalid(server, name):
    with server.connect() as connection:
        connection.sendall(f"GET /download_file/{name} HTTP/1.1\r\nHost: a\r\n"
                           "Connection: close\r\n\r\n".encode())
        data = b"".join(iter(lambda: connection.recv(65536), b""))
    is_path = "/" in name or name == "%2e%2e%2fx"  # no route has it
    assert data.startswith(b"HTTP/1.1 404" if is_path else b"HTTP/1.1 400"), data[:100]
    assert is_path or b"Invalid filename" in data or name == "%00"


def test_downloads_can_be_repeated_and_asked_for(server):
    url = upload(server, "a.txt", SENTENCE).json()["translatedFileUrl"]
    first, second = requests.get(url, timeout=10), requests.get(url, timeout=10)
    assert first.content == second.content
    head = requests.head(url, timeout=10)
    assert head.status_code == 200 and int(head.headers["Content-Length"]) == len(first.content)
    again = requests.get(url, timeout=10, headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


# ---- Bounds --------------------------------------------------------------------------------------


def metric(server, name):
    return float(re.search(rf"^{name} (\S+)$", server.get("/metrics").text, re.MULTILINE)[1])


def test_uploads_that_nobody_fetches_leave_for_new_ones(serve):
    server = serve(max_files=10, max_files_bytes=20000)
    urls = [upload(server, "a.txt", f"Hello {i}").json()["translatedFileUrl"] for i in range(30)]
    statuses = [requests.get(url, timeout=10).status_code for url in urls]
    assert statuses == [404] * 20 + [200] * 10
    assert metric(server, "acre_kept_files") == 10
    assert metric(server, "acre_files_evicted_total") == 20
    for _ in range(5):  # some bytes, and not so many files
        kept = upload(server, "b.txt", "! " * 4000)
        assert kept.status_code == 200
    assert metric(server, "acre_kept_files_bytes") <= 20000
    assert metric(server, "acre_kept_files") <= 3
    too_large = upload(server, "c.txt", "! " * 20000)
    assert too_large.status_code == 413 and too_large.json()["code"] == "file_too_large"
    assert requests.get(kept.json()["translatedFileUrl"], timeout=10).status_code == 200


def test_one_client_s_uploads_push_out_its_own(serve):
    server = serve(max_files=5)
    mine = upload(server, "a.txt", "Hello").json()["translatedFileUrl"]
    session = requests.Session()
    session.get_adapter("http://").init_poolmanager(1, 1, source_address=("127.0.0.2", 0))
    for i in range(20):
        assert session.post(server.url + "/translate_file", data=PAIR, timeout=20,
                            files={"file": ("a.txt", f"Hello {i}")}).status_code == 200
    assert requests.get(mine, timeout=10).status_code == 200


def test_uploads_of_no_address_push_out_their_own(serve, tmp_path):
    file = tmp_path / "acre.sock"
    server = serve(listen=f"127.0.0.1:0,unix:{file}", max_files=5)
    mine = upload(server, "a.txt", "Hello").json()["translatedFileUrl"]
    request = requests.Request("POST", server.url, data=PAIR,
                               files={"file": ("a.txt", "Hello")}).prepare()
    with closing(http.client.HTTPConnection("localhost")) as local:
        local.sock = socket.socket(socket.AF_UNIX)
        local.sock.connect(str(file))
        for _ in range(20):
            local.request("POST", "/translate_file", request.body, request.headers)
            reply = local.getresponse()
            assert (reply.status, bool(reply.read())) == (200, True)
    assert requests.get(mine, timeout=10).status_code == 200


def test_one_client_s_translations_push_out_nobody_s(serve):
    server = serve(max_files=4, threads=1, batch_size=1, max_queued_tokens=10**9,
                   drain_timeout_s=0)
    mine = upload(server, "a.txt", "Hello").json()["translatedFileUrl"]
    session = requests.Session()
    session.get_adapter("http://").init_poolmanager(1, 1, source_address=("127.0.0.2", 0))
    replies = [session.post(server.url + "/v2/document", data={"target_lang": "DE"}, timeout=20,
                            files={"file": ("a.txt", f"{SENTENCE} " * 2000)}) for _ in range(4)]
    assert [reply.status_code for reply in replies] == [200, 200, 503, 503]
    assert requests.get(mine, timeout=10).status_code == 200
    translated = session.post(server.url + "/translate_file", data=PAIR, timeout=20,
                              files={"file": ("a.txt", "\n")})
    assert translated.status_code == 200  # it never waits in translation
    assert upload(server, "a.txt", "Hello").status_code == 200


def test_files_have_a_lifetime(serve):
    server = serve(file_lifetime_s=3)
    url = upload(server, "a.txt", "Hello").json()["translatedFileUrl"]
    assert requests.get(url, timeout=10).status_code == 200
    assert eventually(lambda: requests.get(url, timeout=10).status_code == 404, 15)
    assert metric(server, "acre_kept_files") == metric(server, "acre_kept_files_bytes") == 0
    assert upload(server, "a.txt", "Hello").status_code == 200


def test_thousands_of_uploads_take_bounded_memory(serve):
    server = serve(max_files=500, max_files_bytes=1 << 20)
    text = "! " * 5000  # which stays as it is
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: upload(server, "a.txt", text).status_code, range(2000)))
    assert set(statuses) <= {200, 503}
    assert 500_000 < metric(server, "acre_kept_files_bytes") <= 1 << 20
    assert metric(server, "acre_files_total") >= 1900
    assert server.is_alive()


def test_a_large_file_goes_through_the_pool(serve):
    """And through the same admission: it is refused for what waits, or ends with its time."""
    server = serve(models=ROOT / "models", threads=1, request_timeout_ms=2000)
    text = " ".join(f"The house number {i} is green." for i in range(30000))  # 20 s of work
    with ThreadPoolExecutor(4) as pool:
        large = [pool.submit(upload, server, "a.txt", text) for _ in range(3)]
        for _ in range(20):
            assert server.get("/health/live", timeout=1 * PATIENCE).status_code == 200
        for reply in large:
            assert reply.result().status_code in (429, 503, 504)
    assert eventually(lambda: metric(server, "acre_queued_tokens") == 0)
    assert server.translate("Hello.").status_code == 200


@pytest.mark.parametrize("name, unit", [
    ("a.txt", "x"), ("a.html", "<b>x"), ("a.srt", "1\n0:0:1,0 --> 0:0:2,0\n"), ("a.srt", "-\n"),
    ("a.vtt", "0:1.0 --> 0:2.0\nx\n\n"), ("a.srt", "<i>"), ("a.srt", "1\n"), ("a.srt", "x \n"),
])
def test_ten_megabytes_of_one_thing(serve, name, unit):
    server = serve(max_body_bytes=16 << 20, request_timeout_ms=1000)
    start = "1\n00:00:01,000 --> 00:00:02,000\n" if name[-3:] in ("srt", "vtt") else ""
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(upload, server, name, start + unit * ((10 << 20) // len(unit)),
                            max_length=1, beam_size=1)
        while not reply.done():
            assert server.get("/health/live", timeout=2 * PATIENCE).status_code == 200
        assert reply.result().status_code in (200, 400, 413, 429, 503, 504), reply.result().text
    assert server.is_alive()


def test_a_client_that_leaves_leaves_no_file(serve):
    server = serve(threads=1)
    before = metric(server, "acre_files_total")
    body = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n%s\r\n'
            b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
            b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n--x--'
            % (SENTENCE.encode() * 3000))
    with server.connect() as connection:
        connection.sendall(b"POST /translate_file HTTP/1.1\r\nHost: a\r\nContent-Type: "
                           b"multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(body), body))
        assert eventually(lambda: metric(server, "acre_queued_tokens") > 0)
        connection.shutdown(socket.SHUT_RDWR)
    assert eventually(lambda: metric(server, "acre_queued_tokens") == 0)
    assert metric(server, "acre_files_total") == before


def test_spec_is_swagger_of_libretranslate_s_calls(server):
    spec = server.get("/spec").json()
    assert spec["swagger"] == "2.0" and "openapi" not in spec
    described = server.get("/openapi.json").json()["paths"]
    ours = {(path, method) for path, methods in spec["paths"].items() for method in methods}
    theirs = {(path, method) for path, methods in described.items() for method, call in
              methods.items() if "LibreTranslate" in call["tags"]}
    assert theirs - ours == {("/translate/{name}", "post"), ("/spec", "get")}
    for path, method in ours:
        for parameter in spec["paths"][path][method]["parameters"]:
            assert parameter["in"] in ("formData", "path") and parameter["type"]
    references = set(re.findall(r'"#/definitions/([\w-]+)"', server.get("/spec").text))
    assert references <= set(spec["definitions"])
    assert server.post("/spec").status_code == 405
