"""The page at /: as a form without scripts, live with them, and attacked."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
import requests
from acre_server import ROOT, SENTENCE
from browser import Browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

PAIR = {"source": "en", "target": "de"}
ATTACKS = [
    "<script>window.hit=1</script>",
    "</textarea><script>window.hit=1</script>",
    "</div></select></form><img src=x onerror=window.hit=1>",
    "\"><svg onload=window.hit=1>",
    "' autofocus onfocus='window.hit=1",
    "@{result}@{text}@{sources}",
    "javascript:window.hit=1",
    "--></noscript></title><script>window.hit=1</script>",
]


# ---- Without a browser ---------------------------------------------------------------------------


def test_policy_allows_these_scripts_and_no_others(server):
    for path in ("/", "/docs", "/?q=x"):
        reply = server.get(path)
        assert reply.status_code == 200
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        policy = reply.headers["Content-Security-Policy"]
        assert "unsafe" not in policy and "default-src 'none'" in policy
        blocks = re.findall(r"<(style|script)>(.*?)</\1>", reply.text, re.DOTALL)
        assert [kind for kind, _ in blocks] == ["style", "script"]
        for kind, text in blocks:
            own = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert re.search(f"{kind}-src [^;]*'sha256-{re.escape(own)}'", policy), kind
        assert not re.search(r"(src|href)=.?(https?:)?//", reply.text)


def test_a_client_that_has_the_page_gets_304(server):
    for path in ("/", "/docs", "/openapi.json"):
        first = server.get(path)
        again = server.get(path, headers={"If-None-Match": "W/" + first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["Content-Length"] == first.headers["Content-Length"]
        other = server.get(path, headers={"If-None-Match": '"0"'})
        assert other.content == first.content
        head = requests.head(server.url + path, timeout=10)
        assert head.status_code == 200 and not head.content


def test_the_form_gives_the_page_back_with_the_translation(server):
    expected = server.translate(SENTENCE, alternatives=2).json()
    reply = server.post("/", data={"q": SENTENCE, **PAIR, "alternatives": "2"})
    assert reply.status_code == 200 and reply.headers["Cache-Control"] == "no-store"
    assert f'lang="de" tabindex="-1">{expected["translatedText"]}</div>' in reply.text
    for other in expected["alternatives"]:
        assert f'<li dir="auto" lang="de">{other}</li>' in reply.text
    assert f">\n{SENTENCE}</textarea>" in reply.text


def test_texts_run_as_their_own_script_does(server):
    """Arabic from the right, whatever the page is in."""
    page = server.get("/").text
    for name in ("q", "areas", "result"):
        assert re.search(f'<[^>]*id="{name}"[^>]* dir="auto"', page), name


def test_what_is_wrong_stands_in_the_page(serve):
    server = serve(max_text_chars=50)
    for data, status, text in (
        ({"q": SENTENCE, "source": "en", "target": "xx"}, 400, "xx is not supported"),
        ({"q": "", **PAIR}, 400, "missing q parameter"),
        ({"q": "x" * 51, **PAIR}, 400, "exceeds text limit (50)"),
        ({"q": SENTENCE, **PAIR, "level": "<b>"}, 400, "&quot;&lt;b&gt;&quot;"),
    ):
        reply = server.post("/", data=data)
        assert reply.status_code == status
        assert re.search(f'role="alert">[^<]*{re.escape(text)}', reply.text), reply.text
    assert server.post("/", json={"q": ["a", "b"], **PAIR}).status_code == 400


@pytest.mark.parametrize("beam, boxes", [(1, []), (2, ["1"]), (8, ["2"])])
def test_no_more_alternatives_are_offered_than_the_server_gives(serve, beam, boxes):
    server = serve(max_beam_size=beam)
    found = re.findall('name="alternatives" value="([0-9]+)"', server.get("/").text)
    assert found == boxes
    for n in found:
        reply = server.post("/", data={"q": SENTENCE, **PAIR, "alternatives": n})
        assert reply.status_code == 200 and reply.text.count("<li ") == int(n)


def test_the_address_fills_the_page_in(server):
    text = server.get("/", params={"source": "en", "target": "FR", "q": "1 < 2 & 3"}).text
    assert '<option value="fr" selected>' in text and "\n1 &lt; 2 &amp; 3</textarea>" in text


class Shape(HTMLParser):
    """The elements of a page and the names of their attributes; lists may be of any length."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("option", "li"):
            names = {name for name, _ in attrs} - {"lang"}
            self.elements.append((tag, sorted(names)))


@pytest.mark.parametrize("field", ["q", "source", "target", "level"])
def test_what_a_client_sends_is_never_markup(server, field):
    plain = {"q": "x", **PAIR, "level": "token"}
    shape = Shape(server.get("/").text).elements
    assert ("script", []) in shape and len(shape) > 30
    for attack in [*ATTACKS, "\x01\x7f\uffff", "\u00e9" * 3, "\r\n\r\n"]:
        for reply in (server.post("/", data={**plain, field: attack}),
                      server.get("/", params={**plain, field: attack})):
            assert reply.status_code in (200, 400)
            assert Shape(reply.text).elements == shape, attack
    raw = requests.get(server.url + "/?q=%ff%fe%3Cscript%3E&source=%00", timeout=10)
    assert raw.status_code == 200 and "��&lt;script&gt;</textarea>" in raw.text


def test_the_page_can_be_turned_off(serve):
    server = serve(page="false")
    for path in ("/", "/docs"):
        reply = server.get(path)
        assert reply.status_code == 404 and reply.json()["code"] == "not_found"
    assert server.post("/", data={"q": "x", **PAIR}).status_code == 404
    assert not {"/", "/docs"} & set(server.get("/openapi.json").json()["paths"])


# ---- In Chromium ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


def type_in(browser, text):
    field = browser.find("#q")
    field.clear()
    field.send_keys(text)


def result_of(browser):
    browser.wait(lambda: browser.text("#state").startswith("in "))
    return browser.text("#result")


def test_typing_translates(server, browser):
    browser.open(server.url + "/")
    browser.wait(lambda: not browser.find('#target option[value="fr"]').get_attribute("disabled"))
    type_in(browser, SENTENCE)
    assert result_of(browser) == server.translate(SENTENCE).json()["translatedText"]
    assert "q=Hello+world" in browser.driver.current_url
    # only the level that the pair has is offered
    Select(browser.find("#target")).select_by_value("fr")
    browser.wait(lambda: browser.find("#level").get_attribute("value") == "char")
    expected = server.translate(SENTENCE, target="fr").json()["translatedText"]
    browser.wait(lambda: browser.text("#result") == expected)
    assert browser.complaints() == []


def test_areas_lie_under_text_that_runs_from_the_right(server, browser):
    browser.open(server.url + "/?" + requests.compat.urlencode({**PAIR, "q": "مرحبا\nHello."}))
    result_of(browser)
    for style in ("direction", "unicodeBidi", "textAlign"):
        found = {browser.driver.execute_script(f"""
            document.getElementById('areas').textContent = document.getElementById('q').value;
            return getComputedStyle(document.getElementById('{name}')).{style}""")
                 for name in ("q", "areas")}
        assert len(found) == 1, found
        assert style != "direction" or found == {"rtl"}


def test_several_sentences_and_alternatives(server, browser):
    text = "Hello there. How are you?\n\nFine, thank you. 🙂"
    browser.open(server.url + "/?" + requests.compat.urlencode({**PAIR, "q": text}))
    assert result_of(browser) == server.translate(text).json()["translatedText"]
    browser.find("#more").click()
    expected = server.translate(text, alternatives=2).json()["alternatives"]
    browser.wait(lambda: [li.get_attribute("textContent") for li in
                          browser.find_all("#alternatives li")] == expected)


def test_an_error_is_told_and_goes_away(server, browser):
    text = requests.compat.quote("Les enfants jouent dans le jardin de la maison.")
    browser.open(f"{server.url}/?source=auto&target=de&q={text}")
    browser.wait(lambda: "found French (fr)" in browser.text("#error"))
    assert browser.text("#result") == ""
    Select(browser.find("#source")).select_by_value("en")
    assert result_of(browser) and browser.text("#error") == ""
    browser.complaints()


def test_attacks_do_nothing(server, browser):
    for attack in ATTACKS:
        for query in ({"q": attack, **PAIR}, {"q": "x", "source": attack, "target": attack}):
            browser.open(server.url + "/?" + requests.compat.urlencode(query))
            assert browser.find("#q").get_attribute("value") == query["q"]
            assert browser.driver.execute_script("return window.hit") is None
    # and were there a hole in the page, the policy would stop it
    browser.complaints()
    assert browser.driver.execute_script("""
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.hit=1">');
        const script = document.createElement('script');
        script.textContent = 'window.hit=1';
        document.body.append(script);
        return window.hit""") is None
    assert any("Content Security Policy" in line for line in browser.complaints())


# A server whose replies a test makes up, so that the page's part can be looked at: `answer`, in
# JavaScript, takes the body of a request and its AbortSignal. `sent` are the bodies so far.
MADE_UP = """
    const real = window.fetch, answer = %s;
    window.sent = [];
    window.fetch = async (url, options) => {
        if (url === 'openapi.json')
            return new Response(JSON.stringify({paths: {}, components: {schemas: {
                TranslateRequest: {properties: %s}}}}));
        if (url !== 'translate')
            return real(url, options);
        sent.push(JSON.parse(options.body));
        return answer(sent.at(-1), options.signal);
    };
"""

STREAMED = """body => {
    const lines = body.q.split(' ').map(word => ({translatedText: word, after: ' '}));
    return new Response(new ReadableStream({start(to) {
        for (const line of [...lines, {done: true}])
            to.enqueue(new TextEncoder().encode(JSON.stringify(line) + '\\n'));
        to.close();
    }}));
}"""


@pytest.fixture
def made_up(server, browser):
    """Opens the page with a text, and with a server that answers so and has such fields."""
    scripts = []

    def open_page(q, answer, *fields):
        source = MADE_UP % (answer, json.dumps(dict.fromkeys(fields, {})))
        scripts.append(browser.tell("Page.addScriptToEvaluateOnNewDocument", source=source))
        browser.open(server.url + "/?" + requests.compat.urlencode({**PAIR, "q": q}))

    yield open_page
    for script in scripts:
        browser.tell("Page.removeScriptToEvaluateOnNewDocument", **script)


def test_long_streams_are_shown_in_time_that_grows_with_them(browser, made_up):
    """Each word is read and made once, all within one element; those of long texts never."""
    made_up("a", STREAMED, "stream", "alignments")
    assert result_of(browser) == "a "
    browser.driver.execute_script("""
        const segment = Intl.Segmenter.prototype.segment, make = document.createElement;
        Intl.Segmenter.prototype.segment = function(text) {
            n_read += text.length;
            return segment.call(this, text);
        };
        document.createElement = function(...all) { n_made++; return make.apply(this, all); };""")
    for n_words, is_aligned in ((500, True), (4000, None)):
        browser.driver.execute_script("""
            window.n_read = window.n_made = 0;
            q.value = 'Word. '.repeat(arguments[0]).trim();
            state.textContent = '';
            q.dispatchEvent(new Event('input'));""", n_words)
        assert result_of(browser) == "Word. " * n_words
        read, made, sent = browser.driver.execute_script("return [n_read, n_made, sent]")
        assert (read, made) == ((len("Word. ") * n_words, n_words + 1) if is_aligned else (0, 0))
        assert sent[-1].get("alignments") is is_aligned


ALIGNED = """body => new Response(JSON.stringify({translatedText: 'Schöne Züge 🙂', alignments: [[
    {source: [0, 5], target: [0, 7]}, {source: [6, 12], target: [8, 10]},
    {source: [0, 5], target: [10, 13]}, {source: [13, 17], target: [14, 18]}]]}))"""


def test_words_show_what_they_were_made_of(browser, made_up):
    made_up("Great trains 🙂", ALIGNED, "alignments")
    browser.wait(lambda: len(browser.find_all(".word")) == 3)
    assert browser.driver.execute_script("return sent[0].alignments") is True
    words = browser.find_all(".word")
    ActionChains(browser.driver).move_to_element(words[0]).perform()
    browser.wait(lambda: [m.get_attribute("textContent") for m in browser.find_all("#areas mark")]
                 == ["Great"])
    assert browser.text("#looked") == "“Schöne” looked at “Great”"
    # by keyboard: one stop for Tab, arrows from there
    words[0].send_keys(Keys.ARROW_RIGHT)
    marks = browser.find_all("#areas mark")
    assert [m.get_attribute("textContent") for m in marks] == ["Great", "trains"]
    assert browser.text("#looked") == "“Züge” looked at “Great” 50 %, “trains” 50 %"
    assert browser.driver.switch_to.active_element.text == "Züge"
    browser.driver.switch_to.active_element.send_keys(Keys.END)
    assert browser.text("#looked") == "“🙂” looked at “🙂”"
    # the area lies under its word, as the text in the field lies
    place = browser.find("#areas mark").rect
    field = browser.find("#q").rect
    assert field["x"] < place["x"] < field["x"] + field["width"]
    assert browser.driver.execute_script("""
        q.value = 'Other';
        q.dispatchEvent(new Event('input'));
        const focused = getComputedStyle(document.activeElement);
        return [areas.textContent, looked.textContent, focused.outlineStyle];
        """) == ["", "", "solid"]


def test_a_stream_that_breaks_leaves_what_came(browser, made_up):
    made_up("a b", STREAMED.replace("{done: true}", "{error: 'It broke'}"), "stream")
    browser.wait(lambda: browser.text("#error") == "It broke")
    assert browser.text("#result") == "a b "
    assert browser.find("#result").value_of_css_property("opacity") == "0.55"


BUSY = """body => sent.length === 2 ?
    new Response('{"error": "Busy"}', {status: 429, headers: {'Retry-After': '1'}}) :
    new Response(JSON.stringify({translatedText: body.q.toUpperCase()}))"""


def test_a_busy_server_is_asked_again(browser, made_up):
    script = browser.driver.execute_script
    made_up("One", BUSY)
    assert result_of(browser) == "ONE"
    script("""
        window.told = [];
        const note = () => told.push([error, result, state].map(place => place.textContent));
        new MutationObserver(note).observe(error, {childList: true});
        q.value = 'Two';
        q.dispatchEvent(new Event('input'));""")
    browser.wait(lambda: browser.text("#result") == "TWO")
    assert script("return told[0]") == ["Busy", "ONE", "Trying again in 1 s"]
    assert [request["q"] for request in script("return sent")] == ["One", "Two", "Two"]
    assert browser.find("#result").value_of_css_property("opacity") == "1"


FROM_THE_RIGHT = """body => new Response(JSON.stringify({translatedText: 'שלום עולם',
    alternatives: ['עולם'], alignments: [[{source: [0, 5], target: [0, 8]}]]}))"""


def test_what_runs_from_the_right_is_walked_from_the_right(browser, made_up):
    made_up("Hello", FROM_THE_RIGHT, "alignments")
    browser.wait(lambda: len(browser.find_all(".word")) == 2)
    browser.find_all(".word")[0].send_keys(Keys.ARROW_LEFT)
    assert browser.driver.switch_to.active_element.get_attribute("textContent") == "עולם"
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.driver.switch_to.active_element.get_attribute("textContent") == "שלום"
    assert browser.find("#alternatives li").get_attribute("lang") == "de"


def test_browsers_without_a_segmenter_have_words_too(browser, made_up):
    made_up("Great trains 🙂", "(delete Intl.Segmenter, " + ALIGNED + ")", "alignments")
    browser.wait(lambda: [word.get_attribute("textContent") for word in browser.find_all(".word")]
                 == ["Schöne", "Züge", "🙂"])


HELD = """(window.held = [], (body, signal) => new Promise((resolve, reject) => held.push(
    {signal, reject, reply: reply => resolve(new Response(JSON.stringify(reply)))})))"""


def test_a_reply_counts_for_the_text_that_was_sent(browser, made_up):
    script = browser.driver.execute_script
    made_up("Great trains", HELD, "alignments")
    browser.wait(lambda: script("return held.length") == 1)
    script("""
        q.value = 'Other';
        q.dispatchEvent(new Event('input'));
        held[0].reply({translatedText: 'Schön', alignments: [[{source: [0, 5], target: [0, 6]}]]});
        """)
    browser.wait(lambda: browser.text("#result") == "Schön" and script("return held.length") == 2)
    assert script("document.querySelector('.word').focus(); return areas.textContent") == ""
    # it does not become the source in place of a text that it is no translation of
    assert script("swap.click(); return q.value") == "Other"
    # and a request whose place another one has taken does nothing when it fails
    script("held[1].reject(new Error('late'))")
    assert script("return [error.textContent, held[2].signal.aborted]") == ["", False]
    script("held[2].reply({translatedText: 'Andere'})")
    assert result_of(browser) == "Andere"
    assert script("swap.click(); return q.value") == "Andere"


def areas_by_hand(reply, word):
    """What /attention says of a word's tokens: {text of an area: weight}, heads taken alike."""
    found, text = {}, SENTENCE.encode()
    sentence, = reply["attention"]
    begin = reply["translatedText"].encode().index(word.encode())
    own = [t for t, (first, end) in enumerate(sentence["target_ranges"])
           if first < begin + len(word.encode()) and end > begin]
    heads = [head for layer in sentence["layers"] for head in layer["heads"]]
    for t in own:
        for head in heads:
            for area in head["tokens"][t]:
                ranges = sentence["source_ranges"][area["first"]:area["first"] + area["width"]]
                ranges = [r for r in ranges if r[0] < r[1]]
                if ranges:
                    name = text[ranges[0][0]:ranges[-1][1]].decode()
                    found[name] = found.get(name, 0) + area["weight"] / len(heads) / len(own)
    return found


def test_areas_are_those_that_the_model_attended_to(server, browser):
    """The real thing, by keyboard: Tab from the source's last button to the first word."""
    browser.open(f"{server.url}/?" + requests.compat.urlencode({**PAIR, "q": SENTENCE}))
    result_of(browser)
    browser.find("#go").send_keys(Keys.TAB)
    word = browser.driver.switch_to.active_element.get_attribute("textContent")
    assert browser.find_all(".word")[0].get_attribute("textContent") == word
    reply = server.get("/attention", params={**PAIR, "text": SENTENCE}).json()
    weights = areas_by_hand(reply, word)
    browser.wait(lambda: "%" in browser.text("#looked"))
    told = re.findall(r"“([^”]*)” (\d+) %", browser.text("#looked").split("looked at")[1])
    assert 1 <= len(told) <= 4
    for area, percent in told:
        assert abs(100 * weights[area] - int(percent)) <= 1
    assert float(told[0][1]) >= 100 * max(weights.values()) - 1
    drawn = "".join(mark.get_attribute("textContent") for mark in browser.find_all("mark.most"))
    assert drawn.strip() == told[0][0]
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [320, 390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_can_be_read(server, browser, width, dark):
    browser.look_like(dark, width)
    for path in ("/?source=en&target=de&q=" + "Donaudampfschiff" * 30, "/docs"):
        browser.open(server.url + path)
        wide = browser.driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path
    low = browser.driver.execute_script(CONTRAST)
    assert low == []
    browser.look_like()


# WCAG 2.2, 1.4.3: text against what is under it, at least 4.5 to 1.
CONTRAST = """
    const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number);
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b); };
    const under = e => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
    return [...document.querySelectorAll('a, h1, h2, p, code, summary, span, button, label')]
        .filter(e => e.checkVisibility() && e.textContent.trim()).map(e => {
            const a = light(getComputedStyle(e).color), b = light(under(e));
            return [e.tagName + ' ' + e.textContent.trim().slice(0, 30),
                    (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]; })
        .filter(([, ratio]) => ratio < 4.5);
"""


def test_every_control_has_a_name(server, browser):
    browser.open(server.url + "/")
    tree = browser.tell("Accessibility.getFullAXTree")["nodes"]
    controls = [node for node in tree if not node.get("ignored") and
                node["role"]["value"] in ("button", "combobox", "textbox", "checkbox", "link")]
    assert len(controls) >= 7
    for node in controls:
        assert node.get("name", {}).get("value"), json.dumps(node)


def test_docs_list_every_call(server, browser):
    browser.open(server.url + "/docs")
    paths = server.get("/openapi.json").json()["paths"]
    browser.wait(lambda: browser.find_all("summary .verb"))
    shown = {(e.find_element("css selector", ".verb").get_attribute("textContent").lower(),
              e.find_element("css selector", "code").get_attribute("textContent"))
             for e in browser.find_all("summary:has(.verb)")}
    assert shown == {(verb, path) for path, verbs in paths.items() for verb in verbs}
    assert browser.complaints() == []


def test_without_scripts_it_is_a_form(server):
    browser = Browser(with_scripts=False)
    try:
        browser.open(server.url + "/")
        browser.find("#q").send_keys(SENTENCE)
        browser.find("#go").click()
        browser.wait(lambda: browser.text("#result"))
        assert browser.text("#result") == server.translate(SENTENCE).json()["translatedText"]
        field = browser.find("#q")
        assert field.get_attribute("value") == SENTENCE
        assert field.value_of_css_property("overflow") == "auto"
    finally:
        browser.close()


def test_committed_pictures_are_small():
    pictures = list((ROOT / "tests/http/page").glob("*.png"))
    assert pictures and sum(p.stat().st_size for p in pictures) <= 150_000
