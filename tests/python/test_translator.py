"""acre.Translator: the same translations as `acre translate`, in threads, streams and processes."""

import itertools
import os
import pickle
import threading
import time

import pytest
from conftest import LINES, MODELS, command

LONG = "The cat is old and it sits on the mat. " * 100


@pytest.mark.parametrize("model", ["tiny-token", "tiny-area", "tiny-char", "tiny-lstm"])
def test_translations_are_those_of_the_command(acre, model):
    options = ("--beam-size", "4", "--num-hypotheses", "3", "--length-penalty", "0.6")
    with acre.Translator(MODELS / model, threads=1) as translator:
        found = translator.translate(LINES, beam_size=4, num_hypotheses=3, scores=True,
                                     length_penalty=0.6)
    for translation, expected in zip(found, command(model, LINES, *options), strict=True):
        if not translation:
            continue  # of an empty line the command says nothing
        hypotheses = expected["hypotheses"]
        assert [str(h) for h in translation.hypotheses] == [h["text"] for h in hypotheses]
        for key in ("score", "normalized_score"):
            values = [h[key] for h in hypotheses]
            assert [getattr(h, key) for h in translation.hypotheses] == pytest.approx(values, 1e-4)
        assert translation == hypotheses[0]["text"]
        assert translation.score == translation.hypotheses[0].score


def test_a_narrow_beam_is_greedy_search(translator):
    narrow = translator.translate(LINES, beam_size=4, beam_threshold=1e-7, scores=True)
    greedy = translator.translate(LINES, beam_size=1, scores=True)
    assert [(t, t.score) for t in narrow] == [(t, t.score) for t in greedy]


def test_what_is_not_asked_for_is_not_there(translator):
    found, = translator.translate(["Hello there."])
    assert isinstance(found, str) and found
    assert (found.score, found.normalized_score, found.alignments) == (None, None, None)
    assert [str(h) for h in found.hypotheses] == [found]
    assert translator.translate([]) == []
    assert translator.translate(iter(["", " \n"])) == ["", " \n"]


def test_max_length_cuts(translator):
    text = "The cat is old and it sits on the mat."
    longer, shorter = (translator.translate([text], max_length=n)[0] for n in (30, 1))
    assert len(shorter) < len(longer)
    assert shorter.truncated and shorter.hypotheses[0].truncated


def test_alignments_are_slices_of_text(acre):
    text = "Où? Ñandú 東京 🙂. Two cats."
    with acre.Translator(MODELS / "tiny-char", threads=1) as translator:
        found, = translator.translate([text], alignments=True)
    covered = set()
    for source, target in found.alignments:
        assert 0 <= source[0] <= source[1] <= len(text)
        assert 0 <= target[0] <= target[1] <= len(found)
        covered.update(range(*target))
    assert {i for i, c in enumerate(found) if not c.isspace()} <= covered


def test_attention_is_that_of_the_command(translator):
    text = "Hello there. The cat is old."
    expected = command("tiny-area", [text], "--attention")[0]["attention"]
    found = translator.attention(text)
    assert len(found) == len(expected) == 2
    for ours, theirs in zip(found, expected):
        assert (ours.source, ours.target) == (theirs["source"], theirs["target"])
        assert ours.columns == len(ours.source)
        for layer, other in zip(ours.layers, theirs["layers"], strict=True):
            for head, tokens in zip(layer, other["heads"], strict=True):
                assert [[(a.first, a.width) for a in areas] for areas in head] == [
                    [(a["first"], a["width"]) for a in areas] for areas in tokens["tokens"]]


def test_stream_reads_a_bounded_way_ahead(translator):
    n_read = 0

    def endless():
        nonlocal n_read
        for i in itertools.count():
            n_read += 1
            yield f"The cat is {i}."

    expected = translator.translate(f"The cat is {i}." for i in range(40))
    stream = translator.stream(endless(), read_ahead=7)
    assert n_read == 0
    for i in range(40):
        assert next(stream) == expected[i]
        assert n_read <= i + 7
    stream.close()
    assert translator.translate(["Hello there."])


def test_batches_come_as_they_went(translator):
    batches = [[], ["Hello there."], LINES * 20, [], [], ["The cat is old."] * 3, []]
    expected = [translator.translate(batch) for batch in batches]
    for read_ahead in (None, 1, 2, 7):
        found = translator.stream_batches((tuple(batch) for batch in batches),
                                          read_ahead=read_ahead)
        assert list(found) == expected
    assert list(translator.stream_batches([])) == []
    assert list(translator.stream_batches([[], []])) == [[], []]


def test_the_next_batch_is_begun_before_one_is_given(translator):
    n_read = 0

    def endless():
        nonlocal n_read
        for n_read in itertools.count(1):
            yield [f"The cat is {n_read}."] * 4

    batches = translator.stream_batches(endless(), read_ahead=6)
    assert n_read == 0
    for i in range(10):
        assert len(set(next(batches))) == 1
        assert i + 2 <= n_read <= i + 3  # 3 to 6 texts after those of this one
    batches.close()
    assert translator.translate(["Hello there."])


@pytest.mark.parametrize("batches", ["a text", ["a text"], [b"bytes"], [["a"], "a text"], [[1]],
                                     [None], 7])
def test_wrong_types_of_batches(translator, batches):
    with pytest.raises(TypeError):
        list(translator.stream_batches(batches))


def test_a_bad_text_ends_batches_after_those_before_it(acre, translator):
    batches = translator.stream_batches([["a"], ["b", "a\0b"], ["c"]], read_ahead=1)
    assert next(batches) == translator.translate(["a"])
    with pytest.raises(acre.Error):
        next(batches)
    assert list(batches) == []


def test_many_large_texts_are_read_ahead(acre):
    with acre.Translator(MODELS / "tiny-area", threads=1, batch_size=2) as translator:
        text = " ".join(["The cat is old."] * 500)
        found = translator.translate([text] * 60, max_length=1)
        assert found == translator.translate([text], max_length=1) * 60


def test_large_texts_of_two_threads_share(acre):
    """None waits until the other has nothing more."""
    with acre.Translator(MODELS / "tiny-token", threads=1, batch_size=2) as translator:
        n_translated, is_over = 0, threading.Event()

        def work():
            nonlocal n_translated
            stream = translator.stream(itertools.repeat(LONG), max_length=1)
            for n_translated, _ in enumerate(stream):
                if is_over.is_set():
                    return

        other = threading.Thread(target=work)
        other.start()
        while n_translated == 0:
            time.sleep(0.01)
        before = n_translated
        large = threading.Thread(target=translator.translate, args=[[LONG * 80]],
                                 kwargs={"max_length": 1}, daemon=True)
        large.start()
        large.join(60)
        assert not large.is_alive()
        assert n_translated - before > 10
        is_over.set()
        other.join()


@pytest.mark.parametrize("code, call", [
    ("bad_option", lambda t: t.translate(["a"], beam_size=99)),
    ("bad_option", lambda t: t.translate(["a"], beam_size=2**32 + 1)),
    ("bad_option", lambda t: t.translate(["a"], num_hypotheses=0)),
    ("bad_option", lambda t: t.translate(["a"], length_penalty=float("nan"))),
    ("bad_option", lambda t: t.translate(["a"], max_length=-1)),
    ("bad_option", lambda t: t.stream(["a"], read_ahead=0)),
    ("bad_input", lambda t: t.translate(["a\0b"])),
    ("bad_input", lambda t: t.translate(["\ud800"])),
    ("bad_input", lambda t: t.attention("\ud800")),
])
def test_errors_have_codes(acre, translator, code, call):
    with pytest.raises(acre.Error) as caught:
        call(translator)
    assert caught.value.code == code and str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert translator.translate(["Hello there."])


def test_whole_numbers_are_of_any_type(acre, translator):
    """Such as NumPy's."""
    class Whole:
        def __index__(self):
            return 4

    assert translator.translate(LINES, beam_size=Whole(), max_length=Whole()) == (
        translator.translate(LINES, beam_size=4, max_length=4))
    for wrong in (4.0, "4"):
        with pytest.raises(acre.Error, match="beam_size: expected a whole number of 32 bits"):
            translator.translate(["a"], beam_size=wrong)


@pytest.mark.parametrize("texts", ["a text", b"bytes", [1], [None], [b"bytes"], 7])
def test_wrong_types(translator, texts):
    with pytest.raises(TypeError):
        translator.translate(texts)
    with pytest.raises(TypeError):
        translator.score(texts, ["Ein Text."])
    with pytest.raises(TypeError):
        translator.score(["A text."], texts)


def test_a_wrong_language_is_not_blamed_on_the_text(acre, translator):
    for field in ("source", "target"):
        with pytest.raises(TypeError, match=f"^{field}: expected a str, found int"):
            translator.translate(["A text."], **{field: 5})
        with pytest.raises(acre.Error, match=f"{field}: expected no NUL, found one at 1"):
            translator.score(["A text."], ["Ein Text."], **{field: "e\0n"})


@pytest.mark.parametrize("code, options", [
    ("io_error", {"model_dir": "no-such-model"}),
    ("io_error", {"model_dir": MODELS / "tiny-area/config.json"}),
    ("bad_input", {"model_dir": "tiny\0area"}),
    ("bad_option", {"threads": -1}),
    ("bad_option", {"threads": 2**40}),
    ("unsupported", {"device": "tpu"}),
    ("unsupported", {"compute_type": "f8"}),
])
def test_errors_of_opening(acre, code, options):
    with pytest.raises(acre.Error) as caught:
        acre.Translator(**{"model_dir": MODELS / "tiny-area", "threads": 1} | options)
    assert caught.value.code == code


def test_a_bad_text_ends_a_stream_and_nothing_else(acre, translator):
    texts = ["Hello there."] * 20 + ["a\0b"] + ["Hello there."] * 20
    with pytest.raises(acre.Error):
        translator.translate(texts)
    assert len(set(translator.translate(["Hello there."] * 20))) == 1


def test_threads_share_a_translator(translator):
    texts = [f"The cat is {i}. {LINES[i % 4]}" for i in range(60)]
    expected = translator.translate(texts)
    found = [None] * 6

    def work(i):
        found[i] = translator.translate(texts)

    threads = [threading.Thread(target=work, args=[i]) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


def test_others_run_while_it_waits(translator):
    """A thread that holds the GIL for the whole translation would leave no turn to this one."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: (translator.translate([LONG]), done.set()))
    thread.start()
    turns = 0
    while not done.wait(0.001):
        turns += 1
    thread.join()
    assert turns > 10


def test_closing_ends_streams_of_other_threads(acre):
    translator = acre.Translator(MODELS / "tiny-area", threads=1)
    codes, started = [], threading.Event()

    def work():
        try:
            for _ in translator.stream(itertools.repeat(LONG), read_ahead=3):
                started.set()
        except acre.Error as error:
            codes.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert started.wait(60)
    translator.close()
    for thread in threads:
        thread.join(30)
    assert codes == ["shutting_down"] * 3


def test_closed_translators_refuse(acre):
    with acre.Translator(MODELS / "tiny-area", threads=1) as translator:
        stream = translator.stream(itertools.repeat("Hello there."))
        next(stream)
    translator.close()
    for call in (lambda: list(stream), lambda: translator.translate(["a"]),
                 lambda: translator.attention("a")):
        with pytest.raises(acre.Error) as caught:
            call()
        assert caught.value.code == "shutting_down"


def in_child(work):
    """The exit status of a forked process that does this, 99 if it hangs."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        finally:
            os._exit(98)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 99


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_children_open_their_own(acre, translator):
    """Forked in the middle of its work: the parent's translator is refused, one's own works."""
    expected = translator.translate(LINES)
    stop = threading.Event()

    def keep_busy():
        while not stop.is_set():
            translator.translate(LINES)

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    stream = translator.stream(itertools.repeat("Hello there."))
    next(stream)

    def child():
        for call in (lambda: translator.translate(LINES), lambda: next(stream),
                     lambda: translator.attention("a"), lambda: translator.translate([])):
            try:
                call()
                return 1
            except acre.Error as error:
                if error.code != "unsupported":
                    return 2
        translator.close()
        with acre.Translator(MODELS / "tiny-area", threads=2) as own:
            return 0 if own.translate(LINES) == expected else 3

    try:
        assert [in_child(child) for _ in range(5)] == [0] * 5
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert next(stream) and translator.translate(LINES) == expected


def test_translations_are_sent_and_translators_are_not(translator):
    found, = translator.translate(["Hello there."], scores=True, alignments=True)
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found and copy.__dict__ == found.__dict__
    with pytest.raises(TypeError, match="open one in each"):
        pickle.dumps(translator)


def test_a_signal_interrupts_a_wait(python):
    done = python("""
import acre, itertools, os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs in background
translator = acre.Translator(sys.argv[1], threads=1)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    translator.translate(itertools.repeat(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", len(translator.translate(["Hello there."])))
""", MODELS / "tiny-area", LONG)
    assert (done.returncode, done.stdout) == (0, "interrupted 1\n"), done.stderr


@pytest.fixture
def interrupted(acre, monkeypatch):
    """Makes a function of the library end as with a Ctrl-C that came meanwhile."""
    def interrupt(name):
        function = getattr(acre._library.lib, name)

        def call(*arguments):
            function(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(acre._library.lib, name, call)
    return interrupt


@pytest.fixture
def closed(acre, monkeypatch):
    """Lists the calls of a function of the library: whether there was something to close."""
    def watch(name):
        function, calls = getattr(acre._library.lib, name), []

        def call(handle):
            calls.append(bool(handle))
            function(handle)

        monkeypatch.setattr(acre._library.lib, name, call)
        return calls
    return watch


@pytest.mark.parametrize("name", ["acre_engine_open", "acre_model_open"])
def test_an_interrupted_start_leaves_no_engine(acre, interrupted, closed, name):
    engines = closed("acre_engine_close")
    interrupted(name)
    with pytest.raises(KeyboardInterrupt):
        acre.Translator(MODELS / "tiny-area", threads=1)
    assert engines == [True]


def test_an_interrupted_submit_leaves_no_job(translator, interrupted, closed):
    jobs = closed("acre_job_close")
    interrupted("acre_submit")
    with pytest.raises(KeyboardInterrupt):
        translator.translate([LONG])
    assert jobs == [True]


def test_a_signal_handler_closes(python):
    """It may have interrupted a call into the engine, which then ends first."""
    done = python("""
import acre, signal, threading
for _ in range(10):
    translator = acre.Translator(sys.argv[1], threads=1)
    signal.signal(signal.SIGALRM, lambda *_: translator.close())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        while True:
            translator.attention("Hello there.", least=0.0)
    except acre.Error as error:
        print(error.code)
""", MODELS / "tiny-area")
    assert (done.returncode, done.stdout) == (0, "shutting_down\n" * 10), done.stderr


def test_signals_are_the_programs(python):
    """One that it blocks, to wait for it, does not kill it in a thread that was there before."""
    done = python("""
import acre, os, signal
with acre.Translator(sys.argv[1], threads=1):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.kill(os.getpid(), signal.SIGTERM)
    print(signal.sigwait([signal.SIGTERM]).name)
""", MODELS / "tiny-area")
    assert (done.returncode, done.stdout) == (0, "SIGTERM\n"), done.stderr


def test_programs_end_without_closing(python):
    done = python("""
import acre, contextlib, itertools, threading
translator = acre.Translator(sys.argv[1], threads=2)
def work():
    with contextlib.suppress(acre.Error):  # one in a daemon's thread may abort an ending Python
        translator.translate(itertools.repeat(sys.argv[2]))
threading.Thread(target=work, daemon=True).start()
stream = translator.stream(itertools.repeat("Hello there."))
print(next(stream) != "")
""", MODELS / "tiny-area", LONG)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_is_kept(translator):
    def work(n):
        for _ in range(n):
            translator.translate(LINES, num_hypotheses=2, beam_size=2, alignments=True)
            translator.attention(LINES[2])
            stream = translator.stream(LINES * 4)
            next(stream)
            stream.close()
    work(30)
    before = resident_bytes()
    work(90)
    assert resident_bytes() - before < 4 << 20


def test_scores_are_those_of_translations(acre, translator):
    texts = ["Hello there.", "The cat is old."] * 40
    found = translator.translate(texts, beam_size=1, scores=True)
    scores = translator.score(texts, found)
    assert scores == pytest.approx([t.score for t in found], abs=1e-3)
    assert translator.score([], []) == []
    worse = translator.score(texts[:1], ["x"])
    assert worse[0] < scores[0]
    with pytest.raises(acre.Error, match="translations: expected 1, one for each text, found 2"):
        translator.score(["a"], ["b", "c"])


def test_models_of_many_languages(acre):
    directory = MODELS.parent / "multilingual/nllb-many"
    with acre.Translator(directory, threads=1) as translator:
        assert (translator.source, translator.target) == ("en", "")
        assert len(translator.sources) == 202 and "zh-Hant" in translator.targets
        lines = ["Hello there."]
        german = translator.translate(lines, source="en", target="de")
        assert german == translator.translate(lines, source="eng_Latn", target="deu_Latn")
        assert german == translator.translate(lines, target="de")
        assert translator.score(lines, german, target="de") != translator.score(
            lines, german, target="fr")
        for target in (None, "xx"):
            with pytest.raises(acre.Error, match="target: expected a language of the model"):
                translator.translate(lines, source="en", target=target)
