"""Translator: a model, the engine that runs it, and the texts that are on their way.

Happy path: stream() submits texts ahead of the one that it waits for, as many as its bound says,
and hands results out in order. It waits in C, without the GIL, and comes back every tenth of a
second so that signals are seen.

Failure modes: the first text that cannot be translated ends a stream with an Error; what was read
ahead is cancelled. close() ends all streams, whoever is in them, with "shutting_down". After a
fork the engine's threads are not in the child: there everything is refused, and nothing is freed.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import os
import sys
import threading
import weakref
from collections import deque
from contextlib import closing, contextmanager
from typing import (Any, Callable, Deque, Generator, Iterable, Iterator, NamedTuple, NoReturn,
                    Optional, TypeVar)

from . import _library
from ._library import Error, check, lib
from .results import Attention, AttentionPointer, Translation, attention, translation

_WAIT_MS = 100
_BATCHES_AHEAD = 8  # per worker, as `acre translate` reads
_DEFAULT_BATCH_SIZE = 32
_Result = TypeVar("_Result")


class _Asked(NamedTuple):
    """What a call wants of every text; `caller` is the call's own number."""

    decoding: _library.Decoding
    caller: int
    scores: bool = False
    alignments: bool = False
    source: Optional[bytes] = None
    target: Optional[bytes] = None


class _Engine:
    """The engine and its model, and who may call them when.

    Who is in a call into the engine is listed; close() waits for those, all short, and then nobody
    enters any more. Waiting for a job is no such call: it ends when the engine is closed. A signal
    handler that closes may have interrupted such a call: then that call closes when it ends.
    """

    def __init__(self, model_dir: bytes, options: _library.Options) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._inside: list[int] = []  # threads
        self._is_open, self._is_closed = True, False
        self.engine, self.model = ctypes.c_void_p(), ctypes.c_void_p()
        err = _library.Err()
        try:
            check(lib.acre_engine_open(options, self.engine, err), err)
            check(lib.acre_model_open(self.engine, model_dir, self.model, err), err)
        except BaseException:  # also Ctrl-C while a large model is read
            lib.acre_engine_close(self.engine)
            raise

    def check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Error("unsupported", "the translator was opened before this process was forked; "
                                       "open one in each process")

    def is_here(self) -> bool:
        return os.getpid() == self._pid

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.check_process()
        with self._changed:
            self._inside.append(threading.get_ident())
        try:
            if not self._is_open:
                raise Error("shutting_down", "the translator is closed")
            yield
        finally:
            with self._changed:
                self._inside.remove(threading.get_ident())
                self._changed.notify_all()
            if not self._is_open:
                self.close()

    def close(self) -> None:
        if not self.is_here():
            return
        with self._changed:
            self._is_open = False
            if threading.get_ident() in self._inside:
                return
            while self._inside:
                self._changed.wait()
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            lib.acre_engine_close(self.engine)


class _Job:
    """A text that is on its way, with a translation if that is to be scored; owned until
    release()."""

    def __init__(self, engine: _Engine, text: str, asked: _Asked,
                 given: Optional[str] = None) -> None:
        self._engine, self._text, self._asked, self._given = engine, text, asked, given
        self.handle = ctypes.c_void_p()

    def submit(self) -> None:
        words = _encoded(self._text)
        given = None if self._given is None else _encoded(self._given, "the translation")
        request = _library.Request(
            model=self._engine.model, text=words, text_bytes=len(words), translation=given,
            translation_bytes=len(given or b""), source=self._asked.source,
            target=self._asked.target, decoding=self._asked.decoding,
            is_aligned=self._asked.alignments, caller=self._asked.caller)
        err = _library.Err()
        with self._engine.entered():
            status = lib.acre_submit(request, self.handle, err)
        check(status, err)

    def wait(self) -> None:
        self._engine.check_process()
        while not lib.acre_job_wait(self.handle, _WAIT_MS):
            pass

    def result(self) -> Any:
        self.wait()
        result = lib.acre_job_result(self.handle).contents
        if result.status != 0:
            raise _library.status_error(result.status, result.err.text)
        return result

    def translation(self) -> Translation:
        return translation(self.result(), self._text, self._asked.scores, self._asked.alignments)

    def score(self) -> float:
        return float(self.result().hypotheses[0].score)

    def cancel(self) -> None:
        try:
            with self._engine.entered():
                if self.handle:
                    lib.acre_job_cancel(self.handle)
        except Error:
            pass  # closed: it has ended; forked: it is not ours

    def release(self) -> None:
        """Waits until the engine is through with it. A child leaves it to its parent."""
        if self.handle and self._engine.is_here():
            lib.acre_job_wait(self.handle, -1)
            lib.acre_job_close(self.handle)
        self.handle = ctypes.c_void_p()


def _expect_several(texts: Any) -> None:
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts: expected several texts, found one {type(texts).__name__}")


def _whole(name: str, value: int) -> int:
    """As C's int holds it; ctypes would cut off what does not fit."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = None
    if whole is None or not -2**31 <= whole < 2**31:
        raise Error("bad_option", f"{name}: expected a whole number of 32 bits, found {value!r}")
    return whole


def _language(field: str, name: Optional[str]) -> Optional[bytes]:
    return None if name is None else _encoded(name, field)


def _path(directory: str | os.PathLike[str]) -> bytes:
    path = os.fsencode(directory)
    if b"\0" in path:
        raise Error("bad_input", "model_dir: expected a path, found one with a NUL in it")
    return path


def _encoded(text: str, field: str = "the text") -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{field}: expected a str, found {type(text).__name__}")
    if "\0" in text:
        raise Error("bad_input", f"{field}: expected no NUL, found one at {text.index(chr(0))}")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Error("bad_input", f"{field}: expected Unicode text, found half a surrogate pair at "
                                 f"{error.start}") from None


class Translator:
    """One model, on worker threads of its own. Any thread may call it, several at once.

    `threads` 0 is one for each CPU that the process may use; `compute_type` "auto" is what the
    model was evaluated in. `batch_size` is the most sentences that one thread decodes together,
    `max_beam_size` the largest beam that calls may ask for; 0 is the engine's default, which leaves
    room for the model's own beam.
    """

    def __init__(self, model_dir: str | os.PathLike[str], device: str = "auto",
                 compute_type: str = "auto", threads: int = 0, *, batch_size: int = 0,
                 max_beam_size: int = 0) -> None:
        options = _library.Options(
            device=device.encode(), compute_type=compute_type.encode(),
            n_threads=_whole("threads", threads), batch_size=_whole("batch_size", batch_size),
            max_beam_size=_whole("max_beam_size", max_beam_size),
            max_queued_tokens=sys.maxsize)  # what waits is bounded by how far streams read ahead
        self._engine = _Engine(_path(model_dir), options)
        self._finalizer = weakref.finalize(self, self._engine.close)
        info = lib.acre_model_info(self._engine.model).contents
        self._callers = itertools.count()
        self._decoding = _library.Decoding.from_buffer_copy(info.decoding)
        self.name: str = info.name.decode()
        self.source: str = info.source.decode()
        self.target: str = info.target.decode()
        self.sources = [info.sources[i].tag.decode() for i in range(info.n_sources)]
        self.targets = [info.targets[i].tag.decode() for i in range(info.n_targets)]
        self.level: str = info.level.decode()
        self.compute_type: str = info.compute_type.decode()
        self.backend: str = lib.acre_engine_backend(self._engine.engine).decode()
        self.threads: int = lib.acre_engine_threads(self._engine.engine)
        self._ahead = _BATCHES_AHEAD * (batch_size or _DEFAULT_BATCH_SIZE) * self.threads

    def translate(self, texts: Iterable[str], beam_size: Optional[int] = None,
                  num_hypotheses: int = 1, scores: bool = False, alignments: bool = False, *,
                  source: Optional[str] = None, target: Optional[str] = None,
                  length_penalty: Optional[float] = None,
                  beam_threshold: Optional[float] = None,
                  max_length: Optional[int] = None) -> list[Translation]:
        """The translations of all texts, in order. What is None is the model's own."""
        return list(self.stream(texts, beam_size, num_hypotheses, scores, alignments,
                                source=source, target=target, length_penalty=length_penalty,
                                beam_threshold=beam_threshold, max_length=max_length))

    def stream(self, texts: Iterable[str], beam_size: Optional[int] = None,
               num_hypotheses: int = 1, scores: bool = False, alignments: bool = False, *,
               source: Optional[str] = None, target: Optional[str] = None,
               length_penalty: Optional[float] = None, beam_threshold: Optional[float] = None,
               max_length: Optional[int] = None,
               read_ahead: Optional[int] = None) -> Generator[Translation, None, None]:
        """translate() for texts without end: reads at most `read_ahead` more of them than it has
        given translations of. By default that keeps all threads busy."""
        _expect_several(texts)
        if read_ahead is not None and read_ahead < 1:
            raise Error("bad_option", f"read_ahead: expected at least 1, found {read_ahead}")
        decoding = self._decoding_of(beam_size, num_hypotheses, length_penalty, beam_threshold,
                                     max_length)
        asked = _Asked(decoding, next(self._callers), scores, alignments,
                       _language("source", source), _language("target", target))
        self._engine.check_process()
        jobs = (_Job(self._engine, text, asked) for text in texts)
        return self._results(jobs, _Job.translation, read_ahead or self._ahead)

    def stream_batches(self, batches: Iterable[Iterable[str]], beam_size: Optional[int] = None,
                       num_hypotheses: int = 1, scores: bool = False, alignments: bool = False, *,
                       source: Optional[str] = None, target: Optional[str] = None,
                       length_penalty: Optional[float] = None,
                       beam_threshold: Optional[float] = None, max_length: Optional[int] = None,
                       read_ahead: Optional[int] = None) -> Iterator[list[Translation]]:
        """stream() for texts that come many at a time: a list of translations for each batch. The
        next batch is begun while the last texts of one are translated, so that no thread idles
        between two."""
        _expect_several(batches)
        sizes: Deque[int] = deque()  # of batches that were read, the oldest first

        def texts() -> Iterator[str]:
            for batch in batches:
                _expect_several(batch)
                words = list(batch)
                sizes.append(len(words))
                yield from words

        found = self.stream(texts(), beam_size, num_hypotheses, scores, alignments, source=source,
                            target=target, length_penalty=length_penalty,
                            beam_threshold=beam_threshold, max_length=max_length,
                            read_ahead=read_ahead)
        return self._in_batches(found, sizes)

    def score(self, texts: Iterable[str], translations: Iterable[str], *,
              source: Optional[str] = None, target: Optional[str] = None) -> list[float]:
        """How likely each translation is for its text: the sum of the natural logarithms of its
        tokens' probabilities, end token included. Each is taken as one sentence."""
        _expect_several(texts)
        _expect_several(translations)
        texts, translations = list(texts), list(translations)
        for given in translations:
            _encoded(given, "the translation")  # of which None would be no translation
        if len(texts) != len(translations):
            raise Error("bad_input", f"translations: expected {len(texts)}, one for each text, "
                                     f"found {len(translations)}")
        decoding = self._decoding_of(1, 1)
        asked = _Asked(decoding, next(self._callers), source=_language("source", source),
                       target=_language("target", target))
        self._engine.check_process()
        jobs = (_Job(self._engine, text, asked, given) for text, given in zip(texts, translations))
        return list(self._results(jobs, _Job.score, self._ahead))

    def attention(self, text: str, least: float = 0.01, beam_size: Optional[int] = None, *,
                  source: Optional[str] = None, target: Optional[str] = None) -> list[Attention]:
        """What the decoder attended to, for each sentence of a text. Areas that weigh less than
        `least` are left out."""
        job = _Job(self._engine, text,
                   _Asked(self._decoding_of(beam_size, 1), next(self._callers),
                          source=_language("source", source),
                          target=_language("target", target)))
        try:
            job.submit()
            return [self._attention_of(job, sentence, least)
                    for sentence in range(job.result().n_sentences)]
        finally:
            job.cancel()
            job.release()

    def close(self) -> None:
        """Stops the engine. Unfinished streams end with an Error, "shutting_down"."""
        self._finalizer()

    def __enter__(self) -> Translator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Translator is not sent to other processes; open one in each")

    def __repr__(self) -> str:
        return f"<acre.Translator {self.name} on {self.backend}, {self.threads} threads>"

    def _decoding_of(self, beam_size: Optional[int], num_hypotheses: int,
                     length_penalty: Optional[float] = None,
                     beam_threshold: Optional[float] = None,
                     max_length: Optional[int] = None) -> _library.Decoding:
        decoding = _library.Decoding.from_buffer_copy(self._decoding)
        decoding.num_hypotheses = _whole("num_hypotheses", num_hypotheses)
        if beam_size is not None:
            decoding.beam_size = _whole("beam_size", beam_size)
        if length_penalty is not None:
            decoding.length_penalty = length_penalty
        if beam_threshold is not None:
            decoding.beam_threshold = beam_threshold
        if max_length is not None:
            decoding.max_length = _whole("max_length", max_length)
            decoding.min_length = min(decoding.min_length, decoding.max_length)
        return decoding

    def _results(self, made: Iterator[_Job], result: Callable[[_Job], _Result],
                 ahead: int) -> Generator[_Result, None, None]:
        jobs: Deque[_Job] = deque()  # oldest first
        try:
            for job in made:
                jobs.append(job)  # first: Ctrl-C may come while it is submitted
                job.submit()
                if len(jobs) >= ahead:  # half of them at once: to wake up for each takes the
                    jobs[(ahead - 1) // 2].wait()  # processor from an engine on the same one
                    while len(jobs) > ahead // 2:
                        yield self._take(jobs, result)
            while jobs:
                yield self._take(jobs, result)
        finally:
            for job in jobs:
                job.cancel()
            for job in jobs:
                job.release()

    @staticmethod
    def _in_batches(found: Generator[Translation, None, None],
                    sizes: Deque[int]) -> Iterator[list[Translation]]:
        batch: list[Translation] = []
        with closing(found):
            for text in found:
                while sizes[0] == 0:
                    yield []
                    sizes.popleft()
                batch.append(text)
                if len(batch) == sizes[0]:
                    yield batch
                    batch = []
                    sizes.popleft()
        while sizes:  # empty ones
            yield []
            sizes.popleft()

    @staticmethod
    def _take(jobs: Deque[_Job], result: Callable[[_Job], _Result]) -> _Result:
        found = result(jobs[0])
        jobs.popleft().release()
        return found

    def _attention_of(self, job: _Job, sentence: int, least: float) -> Attention:
        found, err = AttentionPointer(), _library.Err()
        with self._engine.entered():
            check(lib.acre_attention_open(job.handle, sentence, least, found, err), err)
            try:
                return attention(found.contents)
            finally:
                lib.acre_attention_close(found)
