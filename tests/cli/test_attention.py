"""What a translation attends to: acre translate --json --attention and acre inspect --attention.

The pictures are held to the JSON: as many bars, over the same ranges, with the same weights.
"""

import json
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conftest import failed

ROOT = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"
HTML = "{http://www.w3.org/1999/xhtml}"
STATION = "Where is the nearest train station?"
ODD = "Hé <b>日</b> & \"q\" 'x' 😀."


@pytest.fixture(scope="session")
def trained_model():
    return ROOT / "models/en-de-token"


@pytest.fixture(scope="session")
def grid_model(tmp_path_factory):
    """tiny-area, with its source as two rows."""
    model = tmp_path_factory.mktemp("grid") / "tiny-grid"
    shutil.copytree(ROOT / "tests/golden/models/tiny-area", model)
    config = json.loads((model / "config.json").read_text())
    config["area"]["decoder_cross"].update(memory_height=2, height=[2, 2])
    (model / "config.json").write_text(json.dumps(config))
    return model


@pytest.fixture
def show(acre, tmp_path):
    """What inspect writes: an object or a parsed page."""

    def run(model, text, ending):
        path = tmp_path / f"attention.{ending}"
        done = acre("inspect", model, "--attention", text, "-o", path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        if ending == "json":
            return json.loads(path.read_text())
        return ElementTree.fromstring(path.read_text())

    return run


def places(sentence):
    """(layer, head, target token, areas) of all of a sentence's."""
    for y, layer in enumerate(sentence["layers"]):
        for h, head in enumerate(layer["heads"]):
            assert len(head["tokens"]) == len(sentence["target"])
            for t, areas in enumerate(head["tokens"]):
                yield y, h, t, areas


# ---- JSON ---------------------------------------------------------------------------------------


def test_json_has_attention_only_if_asked_for(acre, trained_model):
    lines = f"{STATION}\n\nI am here. Where are you?\n!!!\n"
    flags = ["--model", trained_model, "--json"]
    plain = acre("translate", *flags, text=lines).stdout.splitlines()
    done = acre("translate", *flags, "--attention", text=lines)
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(line["attention"]) for line in found] == [1, 0, 2, 0]
    for line in found:
        tokens = [token for sentence in line["attention"] for token in sentence["target"]]
        if line["attention"]:
            assert [t for t in tokens if t != "</s>"] == line["hypotheses"][0]["tokens"]
        del line["attention"]
    assert found == [json.loads(line) for line in plain]


def test_shape_and_weights(acre, trained_model):
    config = json.loads((trained_model / "config.json").read_text())
    flags = ["--model", trained_model, "--json", "--attention", "--num-hypotheses", "2"]
    sentence, = json.loads(acre("translate", *flags, text=STATION).stdout)["attention"]
    assert set(sentence) == {"source", "target", "source_ranges", "target_ranges", "layers"}
    text = STATION.encode()
    stand = [text[first:end].decode() for first, end in sentence["source_ranges"]]
    assert "".join(stand) == STATION.replace(" ", "") and stand[-1] == ""
    assert len(sentence["target_ranges"]) == len(sentence["target"])
    assert "".join(sentence["source"]).replace("▁", " ").strip() == STATION + "</s>"
    assert sentence["target"][-1] == "</s>"
    layers = 1 if config["model_type"] == "acre-lstm" else config["decoder_layers"]
    assert len(sentence["layers"]) == layers
    assert all(len(y["heads"]) == config["decoder_attention_heads"] for y in sentence["layers"])
    widths = config["area"]["decoder_cross"]["width"]
    for layer, _, _, areas in places(sentence):
        weights = [area["weight"] for area in areas]
        assert weights == sorted(weights, reverse=True)
        assert 0.5 <= sum(weights) <= 1 + 1e-4
        for area in areas:
            assert set(area) == {"first", "width", "weight"}
            assert area["weight"] >= 0.01
            assert 1 <= area["width"] <= widths[layer]
            assert 0 <= area["first"] <= len(sentence["source"]) - area["width"]


def test_it_looks_where_a_person_would(acre, trained_model):
    flags = ["--model", trained_model, "--json", "--attention"]
    sentence, = json.loads(acre("translate", *flags, text=STATION).stdout)["attention"]
    assert "▁Bahnhof" in sentence["target"]
    row = sentence["target"].index("▁Bahnhof")
    wanted = {sentence["source"].index("▁train"), sentence["source"].index("▁station")}
    best = 0
    for _, _, t, areas in places(sentence):
        inside = [a for a in areas
                  if set(range(a["first"], a["first"] + a["width"])) <= wanted]
        if t == row:
            best = max(best, sum(area["weight"] for area in inside))
    assert best > 0.7


def test_attention_does_not_depend_on_the_batch(acre, trained_model):
    lines = ["I see.", STATION, "How are you today?", "The weather is nice, but it will rain."]
    flags = ["--model", trained_model, "--json", "--attention", "--threads"]
    many = acre("translate", *flags, "2", text="\n".join(lines * 3)).stdout.splitlines()
    for i, line in enumerate(lines):
        alone = acre("translate", *flags, "1", "--batch-size", "1", text=line).stdout
        assert [many[i], many[i + 4], many[i + 8]] == [alone.rstrip("\n")] * 3


def test_tokens_and_bytes(acre, token_model, char_model):
    vocabulary = json.loads((token_model / "vocab.json").read_text())
    source = [piece for piece in vocabulary if piece.strip("▁").isalpha()][:5]
    flags = ["--json", "--attention"]
    done = acre("translate", "--model", token_model, "--tokens", *flags, text=" ".join(source))
    assert json.loads(done.stdout)["attention"][0]["source"] == source + ["</s>"]
    done = acre("translate", "--model", char_model, *flags, text="Hé a")
    expected = ["H", "<0xC3>", "<0xA9>", "<0x20>", "a", "</s>"]
    assert json.loads(done.stdout)["attention"][0]["source"] == expected


def test_a_grid_has_rows_and_columns(show, grid_model):
    sentence, = show(grid_model, "Hello you.", "json")["attention"]
    columns = sentence["columns"]
    assert columns == len(sentence["source"]) // 2
    tall = 0
    for _, _, _, areas in places(sentence):
        for area in areas:
            assert area.get("height", 2) == 2
            tall += "height" in area
            assert area["first"] % columns + area["width"] <= columns
    assert tall > 0


# ---- Pictures -----------------------------------------------------------------------------------


def title_of(element):
    title = element.find(SVG + "title")
    return "" if title is None else title.text


def texts_of(element, css_class=""):
    """The texts whose class begins so."""
    found = [t for t in element.iter(SVG + "text") if t.get("class", "").startswith(css_class)]
    return ["".join(part for part in shown(text)) for text in found]


def shown(text):
    """What stands in a text, without its tooltip."""
    yield text.text or ""
    for child in text:
        yield (child.text or "") * (child.tag != SVG + "title") + (child.tail or "")


def charts(page):
    """For each sentence, its charts by layer and head."""
    found = []
    for group in page.iter(SVG + "g"):
        match = re.fullmatch(r"Layer (\d+), head (\d+)", title_of(group))
        if match:
            key = (int(match[1]) - 1, int(match[2]) - 1)
            if key == (0, 0):
                found.append({})
            found[-1][key] = group
    return found


def bars(chart):
    """(weight, first, width) of every bar, as its tooltip says; not a grid's."""
    found = []
    for group in chart.iter(SVG + "g"):
        match = re.search(r"” (\d\.\d+), (?:token|byte)s? (\d+)(?:–(\d+))? of", title_of(group))
        if match:
            assert group.find(SVG + "rect") is not None
            first, last = int(match[2]), int(match[3] or match[2])
            found.append((float(match[1]), first - 1, last - first + 1))
    return found


def drawn(sentence, layer, head):
    """What is to be drawn of a head: what weighs enough, and the heaviest of each token."""
    for areas in sentence["layers"][layer]["heads"][head]["tokens"]:
        for i, area in enumerate(areas):
            if i == 0 or area["weight"] >= 0.05:
                yield area["weight"], area["first"], area["width"]


def by_place(bar):
    return bar[1:], bar[0]


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_the_picture_is_the_json(show, trained_model, ending):
    text = STATION + " I have lost my keys."
    sentences = show(trained_model, text, "json")["attention"]
    found = charts(show(trained_model, text, ending))
    assert len(found) == len(sentences) == 2
    for sentence, of_sentence in zip(sentences, found):
        for (layer, head), chart in of_sentence.items():
            expected = sorted(drawn(sentence, layer, head), key=by_place)
            seen = sorted(bars(chart), key=by_place)
            assert [bar[1:] for bar in seen] == [bar[1:] for bar in expected]
            for bar, area in zip(seen, expected):
                assert bar[0] == pytest.approx(area[0], abs=6e-4)
            assert texts_of(chart, "c") == sentence["source"]
            assert texts_of(chart, "n") == sentence["target"]
            assert chart.find(SVG + "desc").text
        assert len(of_sentence) == sum(len(layer["heads"]) for layer in sentence["layers"])


def test_bars_lie_over_their_columns_and_apart(show, trained_model):
    """A bar of one token has its label's middle; no two bars of a chart overlap."""
    page = show(trained_model, STATION, "svg")
    for chart in charts(page)[0].values():
        middles = [float(t.get("x")) for t in chart.iter(SVG + "text")
                   if t.get("class").startswith("c")]
        boxes = []
        for group in chart.iter(SVG + "g"):
            rect = group.find(SVG + "rect")
            match = re.search(r", token (\d+) of", title_of(group))
            if "←" in title_of(group):
                boxes.append([int(rect.get(key)) for key in ("x", "y", "width", "height")])
            if match:
                x, _, width, _ = boxes[-1]
                assert abs(x + width / 2 - middles[int(match[1]) - 1]) <= 1.5
        assert len(boxes) > 5
        for i, (x, y, width, height) in enumerate(boxes):
            for other_x, other_y, other_width, other_height in boxes[:i]:
                assert (x + width <= other_x or other_x + other_width <= x or
                        y + height <= other_y or other_y + other_height <= y)


def test_what_is_not_drawn_is_named(show, trained_model):
    sentence, = show(trained_model, STATION, "json")["attention"]
    for (layer, head), chart in charts(show(trained_model, STATION, "svg"))[0].items():
        rests = [1 - sum(a["weight"] for i, a in enumerate(areas) if i == 0 or a["weight"] >= 0.05)
                 for areas in sentence["layers"][layer]["heads"][head]["tokens"]]
        found = [float(text.lstrip("+")) for text in texts_of(chart, "r")]
        clear = [rest for rest in rests if rest > 0.0055]
        assert len(found) >= len(clear)
        for rest in clear:
            assert min(abs(rest - value) for value in found) < 0.0051


def test_a_long_sentence_turns_its_labels(show, trained_model):
    text = "When the committee met on Thursday, its members agreed that " * 4 + "it was late."
    sentence, = show(trained_model, text, "json")["attention"]
    assert len(sentence["source"]) > 45
    page = show(trained_model, text, "svg")
    assert int(page.get("width")) < 2500
    for chart in charts(page)[0].values():
        labels = texts_of(chart, "d")
        assert labels[:len(sentence["source"])] == sentence["source"]
        assert texts_of(chart, "n") == sentence["target"]
        assert len(bars(chart)) >= len(sentence["target"]) // 2


def test_size_of_a_page(acre, trained_model):
    text = "I think that the old railway station near the river was built again, because it was " \
           "no longer large enough for us all."
    done = acre("inspect", trained_model, "--attention", text)
    assert len(done.stdout) < 1_000_000
    assert done.stdout.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_pages_stand_by_themselves(acre, trained_model, tmp_path, ending):
    path = tmp_path / f"page.{ending}"
    text = f"{STATION} <script>alert(1)</script> See http://example.org/?a=1&b=2"
    assert acre("inspect", trained_model, "--attention", text, "-o", path).returncode == 0
    page = ElementTree.fromstring(path.read_text())
    assert not [e.tag for e in page.iter() if re.search(r"script|link|image|img|use|}a$", e.tag)]
    names = {name for element in page.iter() for name in element.keys()}
    assert not [name for name in names if "href" in name or "src" in name or name.startswith("on")]
    style = "".join(e.text for e in page.iter() if e.tag.endswith("style"))
    assert style and "url" not in style and "@import" not in style
    plain = re.sub(r'xmlns="http://www\.w3\.org/(2000/svg|1999/xhtml)"', "", path.read_text())
    assert not re.search(r'="[^"]*://', plain)


def headings(page):
    """The first sentence and its translation."""
    classes = {"source": [], "target": [], "translation": []}
    for element in page.iter():
        classes.get(element.get("class"), []).append(element.text)
    html = [heading.text for heading in page.iter(HTML + "h2")]
    return "".join(html[:1] or classes["source"]), "".join(classes["translation"][:1]
                                                          or classes["target"])


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_text_is_escaped(show, char_model, ending):
    page = show(char_model, ODD, ending)
    assert headings(page)[0] == ODD
    if ending == "html":
        assert page.find(f".//{HTML}h2").get("lang") == "en"


@pytest.mark.parametrize("ending", ["html", "svg"])
def test_headings_are_the_text_itself(show, char_model, trained_model, ending):
    """Also what labels name; but not what no page may hold."""
    text = "Hx\u0301 \u200dsays\u2003a\u00a0b, \u0301c"  # which nothing composes
    assert headings(show(char_model, text, ending))[0] == text
    assert headings(show(char_model, "a\x07b\x7f", ending))[0] == "a␇b␡"
    sentence, = show(trained_model, STATION, "json")["attention"]
    translation = "".join(sentence["target"][:-1]).replace("▁", " ").strip()
    assert headings(show(trained_model, STATION, ending)) == (STATION, translation)


def test_names_are_escaped(acre, char_model, tmp_path):
    """Whatever the model's directory and its languages are called."""
    model = os.fsdecode(os.fsencode(tmp_path) + b'/a<b> & "c\xff')
    shutil.copytree(char_model, model)
    config = json.loads((char_model / "tokenizer_config.json").read_text())
    config.update(source_lang="a\"<&'b", target_lang="fr")
    Path(model, "tokenizer_config.json").write_text(json.dumps(config))
    done = acre("inspect", model, "--attention", "Hello.")
    assert done.returncode == 0, done.stderr
    page = ElementTree.fromstring(done.stdout)
    assert page.find(f".//{HTML}h1").text == 'Attention of a<b> & "c\ufffd'
    assert page.find(f".//{HTML}h2").get("lang") == "a\"<&'b"


def test_bytes_are_shown_as_characters(show, char_model):
    page = show(char_model, "Hé 日\x07\u00a0😀x\u0301.", "svg")
    expected = ["H", "é", "␣", "日", "␇", "U+00A0", "😀", "x", "◌\u0301", ".", "</s>"]
    for chart in charts(page)[0].values():
        assert texts_of(chart, "c")[:len(expected)] == expected


def test_parts_of_characters(show, char_model):
    """A bar over a part of a character says so, and lies over that part."""
    text = "😀日é😀"
    starts = {0, 4, 7, 9, 13, 14}  # bytes that begin a character, and the end
    columns = {}
    parts = 0
    for chart in charts(show(char_model, text, "svg"))[0].values():
        for group in chart.iter(SVG + "g"):
            title = title_of(group)
            match = re.search(r", bytes? (\d+)(?:–(\d+))? of 14", title)
            if match:
                first, end = int(match[1]) - 1, int(match[2] or match[1])
                is_part = not {first, end} <= starts
                assert ("not all bytes of a character" in title) == is_part
                parts += is_part
                rect = group.find(SVG + "rect")
                columns.setdefault((first, end), set()).add(
                    (int(rect.get("x")), int(rect.get("width"))))
    assert parts > 0
    assert all(len(places) == 1 for places in columns.values())
    assert len({place for places in columns.values() for place in places}) == len(columns)


def test_the_picture_of_a_grid(show, grid_model):
    sentence, = show(grid_model, "Hello you.", "json")["attention"]
    found = charts(show(grid_model, "Hello you.", "svg"))[0]
    for (layer, head), chart in found.items():
        heads = sentence["layers"][layer]["heads"]
        assert texts_of(chart, "c") == sentence["source"] * len(sentence["target"])
        expected = sum(i == 0 or area["weight"] >= 0.05
                       for areas in heads[head]["tokens"] for i, area in enumerate(areas))
        areas = [group for group in chart.iter(SVG + "g") if "←" in title_of(group)]
        assert len(areas) == expected
        assert len({area.find(SVG + "rect").get("height") for area in areas}) == 2
        cells = [(int(t.get("x")), int(t.get("y"))) for t in chart.iter(SVG + "text")
                 if t.get("class").startswith("c")]
        assert len(set(cells)) == len(cells)
        for area in areas:
            single = re.search(r", token (\d+) of \d+$", title_of(area))
            rect = [int(area.find(SVG + "rect").get(key)) for key in ("x", "y", "width", "height")]
            if single:
                near = [x for x, y in cells[int(single[1]) - 1::len(sentence["source"])]
                        if rect[1] < y < rect[1] + rect[3] and rect[0] < x < rect[0] + rect[2]]
                assert len(near) == 1


# ---- Errors and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("args, texts", [
    (["--attention", "a", "-o", "page.htm"], ["-o: expected", ".html, .svg or .json", "page.htm"]),
    (["--attention", "a", "-o", ".svg"], ["-o: expected"]),
    (["--attention", ""], ["--attention: expected a text, found none"]),
    (["--attention", " \n\u00a0"], ["--attention: expected a text, found none"]),
    (["--attention", b"caf\xe9"], ["--attention: expected UTF-8, found byte 0xe9"]),
    (["--attention", "a", "--attention", "b"], ["--attention: expected once"]),
    (["--attention", "a", "--json"], ["--json: expected without --attention"]),
    (["-o", "page.html"], ["-o: expected together with --attention, found alone"]),
    (["--attention"], ["--attention: expected a value (TEXT)"]),
])
def test_wrong_usage(acre, token_model, tmp_path, args, texts):
    args = [os.fsdecode(arg) if isinstance(arg, bytes) else arg for arg in args]
    failed(acre("inspect", token_model, *args, cwd=tmp_path), 2, *texts)
    assert os.listdir(tmp_path) == []


def test_attention_without_json_is_wrong_usage(acre, token_model):
    done = acre("translate", "--model", token_model, "--attention", text="Hello.\n")
    failed(done, 2, "--attention: expected together with --json")


def test_a_terminal_is_no_place_for_a_page(acre_path, token_model):
    ours, theirs = pty.openpty()
    done = subprocess.run([acre_path, "inspect", token_model, "--attention", "Hello."],
                          stdout=theirs, stderr=subprocess.PIPE, timeout=60)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"-o: expected a file" in done.stderr


def test_places_that_cannot_be_written(acre, acre_path, token_model, tmp_path):
    (tmp_path / "folder.svg").mkdir()
    for name in ("none/page.html", "folder.svg"):
        done = acre("inspect", token_model, "--attention", "Hello.", "-o", tmp_path / name)
        failed(done, 1, f"acre: {tmp_path / name}: expected a file that can be written, found: ")
    assert os.listdir(tmp_path) == ["folder.svg"]
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([acre_path, "inspect", token_model, "--attention", "Hello."],
                              stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert b"standard output" in done.stderr


def test_a_file_is_replaced_as_a_whole(acre, token_model, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    done = acre("inspect", token_model, "--attention", "!!!", "-o", path)
    failed(done, 1, "--attention: expected something to translate, found none")
    assert path.read_text() == "old"
    done = acre("inspect", token_model, "--attention", "Hello.", "-o", path)
    assert done.returncode == 0
    ElementTree.fromstring(path.read_text())
    other = tmp_path / "other"
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode
    assert sorted(os.listdir(tmp_path)) == ["other", "page.html"]
