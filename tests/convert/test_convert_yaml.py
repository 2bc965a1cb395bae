"""The part of YAML that Marian writes, by the rules of YAML 1.2."""

import time

import pytest

from models.convert.yaml_text import read_mapping


def read(text):
    return read_mapping("file.yml", text)


@pytest.mark.parametrize("line, key", (
    ("</s>: 7", "</s>"),
    ("▁der: 7", "▁der"),
    (".: 7", "."),
    ("▁:: 7", "▁:"),
    ("a#b: 7", "a#b"),
    ("-: 7", "-"),
    ("--: 7", "--"),
    ("?!: 7", "?!"),
    ("no: 7", "no"),
    ("~: 7", "~"),
    ("12: 7", "12"),
    ("a b : 7", "a b"),
    ("\u3000: 7", "\u3000"),
    ("a\u2028b: 7", "a\u2028b"),
    ("\x85: 7", "\x85"),
    ('",": 7', ","),
    ('":": 7', ":"),
    ('"#": 7', "#"),
    ('"\\"": 7', '"'),
    ('"\\\\": 7', "\\"),
    ('"a: b" : 7', "a: b"),
    ('"\\x85\\u2028\\U0001F600\\t\\e\\_": 7', "\x85\u2028\U0001f600\t\x1b\xa0"),
    ("'it''s': 7", "it's"),
    ("'\"': 7", '"'),
    ("'\\n': 7", "\\n"),
    ("? long\n: 7", "long"),
    ('? "lo: ng"\n:   7', "lo: ng"),
))
def test_keys(line, key):
    assert read(f"a: 1\n{line}\nz: 9\n") == {"a": "1", key: "7", "z": "9"}


@pytest.mark.parametrize("text, value", (
    ("k: v1.7.6 02f4af4e 2018-12-12 18:51:10 -0800", "v1.7.6 02f4af4e 2018-12-12 18:51:10 -0800"),
    ('k: ""', ""),
    ("k: ''", ""),
    ("k:", None),
    ("k: ~", None),
    ("k: null", None),
    ("k: 'null'", "null"),
    ("k: 1 # one", "1"),
    ("k: # nothing", None),
    ("k: []", []),
    ("k: [1, 'a, b', c d]  # three", ["1", "a, b", "c d"]),
    ("k:\n  []", []),
    ("k:\n  - 58101\n  - 58101", ["58101", "58101"]),
    ("k:\n- a.yml\n-   \"b.yml\"", ["a.yml", "b.yml"]),
    ("---\n# a comment\n\nk: 1\n...", "1"),
    ("\ufeffk: 1\r", "1"),
))
def test_values(text, value):
    assert read(text) == {"k": value}


@pytest.mark.parametrize("text", ("k:\n" + "- x\n" * 200_000, f"k: [{', '.join('x' * 200_000)}]"))
def test_long_lists_take_no_longer_than_their_items(text):
    """Seconds at most, where a copy of the rest for each item takes minutes."""
    begin = time.process_time()
    assert read(text) == {"k": ["x"] * 200_000}
    assert time.process_time() - begin < 10


@pytest.mark.parametrize("text, words", (
    ("a: 1\na: 2", ["line 2", "not there before"]),
    ("a: 1\n  b: 2", ["line 2", "beginning of the line"]),
    ("a", ["line 1", "`key: value`"]),
    ("a:1", ["`key: value`"]),
    ("&x a: 1", ["line 1"]),
    ("a: *x", ["line 1"]),
    ("a: !!python/object/apply:os.system [ls]", ["line 1"]),
    ("a: |\n  text", ["line 1"]),
    ("a: {b: 1}", ["line 1"]),
    ("{a: 1}", ["line 1"]),
    ("a: [1, 2", ["line 1", "`]`"]),
    ("a: [[1]]", ["line 1"]),
    ("a: 1\n- 2", ["line 2", "a key before the list"]),
    ("- 2", ["line 1", "a key before the list"]),
    ('"a\\q": 1', ["escape"]),
    ('"\\uD800": 1', ["escape sequence of a character"]),
    ('"\\UFFFFFFFF": 1', ["escape sequence of a character"]),
    ('"a: 1', ["line 1"]),
    ('a: "b" c', ["the end of the line"]),
    ("? a\nb: 1", ["line 2", "`: value`"]),
    ("? a", ["`: value`", "the end"]),
))
def test_other_yaml_is_refused(refused, text, words):
    refused(read, text, words=["file.yml", *words])
