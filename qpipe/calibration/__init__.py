"""Calibration rows: a weighted mix of texts, cut to token chunks of exact length."""

from qpipe.calibration._allocate import allocate
from qpipe.calibration._build import build_calibration
from qpipe.calibration._mix import Document, Mix, Source, load_mix, read_mix
from qpipe.calibration._tokenize import Tokenizer
from qpipe.calibration._uses import note_uses

__all__ = [
    "Document",
    "Mix",
    "Source",
    "Tokenizer",
    "allocate",
    "build_calibration",
    "load_mix",
    "note_uses",
    "read_mix",
]
