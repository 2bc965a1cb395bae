"""libacre.so as ctypes sees it: acre.h in Python, and nothing more.

The structs have the fields of acre.h in their order; a test compares every offset with what the
C compiler says. ctypes releases the GIL in every call. No Python function is ever handed to the
engine: its threads never wait for the interpreter.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import (POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_size_t, c_uint64, c_void_p)
from pathlib import Path
from typing import Any


class Error(Exception):
    """What the engine refuses or cannot do. `code` is a name for programs, e.g. "bad_model";
    acre_result.h lists them."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return Error, (self.code, str(self))


class Err(Structure):
    _fields_ = [("code", c_int), ("text", c_char * 512), ("retry_after_s", c_int)]


class Options(Structure):
    _fields_ = [("device", c_char_p), ("compute_type", c_char_p), ("device_fallback", c_char_p),
                ("n_threads", c_int), ("batch_size", c_int), ("max_beam_size", c_int),
                ("max_queued_tokens", c_size_t), ("cache_bytes", c_size_t), ("log", c_void_p),
                ("log_user", c_void_p)]


class Decoding(Structure):
    _fields_ = [("beam_size", c_int), ("num_hypotheses", c_int), ("min_length", c_int),
                ("max_length", c_int), ("length_penalty", c_float), ("beam_threshold", c_float)]


class Language(Structure):
    _fields_ = [("code", c_char_p), ("tag", c_char_p)]


class ModelInfo(Structure):
    _fields_ = [("name", c_char_p), ("source", c_char_p), ("target", c_char_p),
                ("sources", POINTER(Language)), ("targets", POINTER(Language)),
                ("n_sources", c_size_t), ("n_targets", c_size_t), ("level", c_char_p),
                ("model_type", c_char_p), ("compute_type", c_char_p), ("parameters", c_uint64),
                ("packed_bytes", c_uint64), ("working_bytes", c_uint64), ("d_model", c_int),
                ("encoder_layers", c_int), ("decoder_layers", c_int), ("attention_heads", c_int),
                ("vocab_size", c_int), ("max_area_width", c_int), ("max_source_tokens", c_int),
                ("max_target_tokens", c_int),
                ("decoding", Decoding)]


class Request(Structure):
    _fields_ = [("model", c_void_p), ("text", c_char_p), ("text_bytes", c_size_t),
                ("source", c_char_p), ("target", c_char_p), ("is_tokens", c_bool),
                ("translation", c_char_p), ("translation_bytes", c_size_t), ("split", c_int),
                ("decoding", Decoding), ("is_aligned", c_bool), ("caller", c_uint64),
                ("timeout_ms", c_int), ("done", c_void_p), ("next", c_void_p), ("user", c_void_p)]


class Range(Structure):
    _fields_ = [("first", c_size_t), ("n_bytes", c_size_t)]


class Alignment(Structure):
    _fields_ = [("source", Range), ("target", Range)]


class Part(Structure):
    _fields_ = [("n_tokens", c_size_t), ("normalized_score", c_double), ("is_truncated", c_bool),
                ("is_apart", c_bool)]


class Hypothesis(Structure):
    _fields_ = [("text", c_char_p), ("tokens", POINTER(c_char_p)), ("n_tokens", c_size_t),
                ("score", c_double), ("normalized_score", c_double), ("sentences", POINTER(Range)),
                ("parts", POINTER(Part)), ("alignments", POINTER(Alignment)),
                ("is_truncated", c_bool)]


class Result(Structure):
    _fields_ = [("status", c_int), ("err", Err), ("hypotheses", POINTER(Hypothesis)),
                ("n_hypotheses", c_size_t), ("sentences", POINTER(Range)),
                ("n_sentences", c_size_t), ("n_source_tokens", c_size_t)]


class Area(Structure):
    _fields_ = [("first", c_int), ("width", c_int), ("height", c_int), ("weight", c_float)]


class Attention(Structure):
    _fields_ = [("n_layers", c_size_t), ("n_heads", c_size_t), ("n_source", c_size_t),
                ("n_target", c_size_t), ("n_columns", c_size_t), ("source", POINTER(c_char_p)),
                ("target", POINTER(c_char_p)), ("source_ranges", POINTER(Range)),
                ("target_ranges", POINTER(Range)), ("areas", POINTER(Area)),
                ("first", POINTER(c_size_t))]


_ERR = POINTER(Err)
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "acre_status_name": (c_char_p, [c_int]),
    "acre_status_text": (c_char_p, [c_int]),
    "acre_engine_open": (c_int, [POINTER(Options), POINTER(c_void_p), _ERR]),
    "acre_engine_close": (None, [c_void_p]),
    "acre_engine_backend": (c_char_p, [c_void_p]),
    "acre_engine_threads": (c_int, [c_void_p]),
    "acre_model_open": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), _ERR]),
    "acre_model_info": (POINTER(ModelInfo), [c_void_p]),
    "acre_submit": (c_int, [POINTER(Request), POINTER(c_void_p), _ERR]),
    "acre_job_wait": (c_bool, [c_void_p, c_int]),
    "acre_job_cancel": (None, [c_void_p]),
    "acre_job_result": (POINTER(Result), [c_void_p]),
    "acre_job_close": (None, [c_void_p]),
    "acre_attention_open": (c_int, [c_void_p, c_size_t, c_float, POINTER(POINTER(Attention)),
                                    _ERR]),
    "acre_attention_close": (None, [POINTER(Attention)]),
}


def _load() -> ctypes.CDLL:
    beside = Path(__file__).with_name("libacre.so")
    library = ctypes.CDLL(os.environ.get("ACRE_LIBRARY") or str(beside))
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


def status_error(status: int, text: bytes = b"") -> Error:
    """The exception that a status is; without a text, the one of the status itself."""
    name, general = lib.acre_status_name(status), lib.acre_status_text(status)
    return Error(name.decode(), (text or general).decode(errors="replace"))


def check(status: int, err: Err) -> None:
    if status != 0:
        raise status_error(status, err.text)
