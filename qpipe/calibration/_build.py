"""Turns a mix into ``calib.jsonl`` and ``report.json``."""

from __future__ import annotations

import json
import random
import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qpipe.calibration._allocate import allocate, largest_remainder
from qpipe.calibration._mix import Document, Mix, read_mix, shown
from qpipe.calibration._tokenize import Tokenizer
from qpipe.errors import ConfigError, Fault, QpipeError
from qpipe.paths import Workspace
from qpipe.records import SCHEMA_VERSION, digest, read_json, staged_dir, write_json, write_text

__all__ = ["build_calibration", "chunk"]


@dataclass(frozen=True)
class _Cut:
    """One source in tokens."""

    lengths: list[int]
    ends: list[int]
    """Where each document ends in the joined stream."""
    total: int
    rows: list[list[int]]
    dropped: int

    def not_drawn(self, picks: list[int]) -> int:
        """Documents of which no token stands in the rows ``picks``."""
        size = (self.total - self.dropped) // len(self.rows) if self.rows else 1
        taken = {pick * size + at for pick in picks for at in range(size)}
        spans = zip(self.lengths, self.ends, strict=True)
        return sum(taken.isdisjoint(range(end - length, end)) for length, end in spans)


def build_calibration(
    mix_file: Path,
    tokenizer_dir: Path,
    out_dir: Path,
    samples: int,
    tokens: int,
    seed: int,
    trust_remote_code: bool = False,
) -> dict[str, Any]:
    """Draw ``samples`` rows of exactly ``tokens`` tokens; returns what ``report.json`` says.

    A set that is there already and would be the same is left as it lies.

    Raises:
        ConfigError: the mix or a text has faults, or the texts do not give that many rows.
        MissingInput: there is no model to take the tokenizer from.
    """
    root = Workspace.here().root
    mix, documents = read_mix(mix_file, root)
    tokenizer = Tokenizer(tokenizer_dir, trust_remote_code)
    mix_name = shown(mix_file, root)
    cuts = _cut(documents, tokenizer, tokens, mix_name)

    available = {name: len(cut.rows) for name, cut in cuts.items()}
    total = sum(available.values())
    if total < samples:
        message = f"all sources together give {total} rows of {tokens} tokens, not {samples}"
        mend = f"ask for at most {total} samples, ask for shorter rows, or add text to the sources"
        raise ConfigError([Fault(mix_name, "sources", message, mend)])

    weights = {name: source.weight for name, source in mix.sources.items()}
    drawn = allocate(samples, weights, available)
    picks = {name: _pick(len(cuts[name].rows), drawn[name], f"{seed}/{name}") for name in drawn}
    rows = _rows(mix, cuts, picks, seed)
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "hash": digest(rows),
        "samples": samples,
        "tokens": tokens,
        "seed": seed,
        "mix": mix_name,
        "tokenizer_hash": tokenizer.hash,
        "eos_token_id": tokenizer.eos,
        **_account(mix, cuts, picks, samples),
    }
    report["notes"] += tokenizer.notes
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    if not _lies_there(out_dir, lines, report):
        with staged_dir(out_dir) as staged:
            write_text(staged / "calib.jsonl", lines)
            write_json(staged / "report.json", report)
    return report


def _lies_there(folder: Path, lines: str, report: dict[str, Any]) -> bool:
    try:
        found = (folder / "calib.jsonl").read_text(encoding="utf-8")
        return found == lines and read_json(folder / "report.json", "qpipe calibrate") == report
    except (OSError, UnicodeDecodeError, QpipeError):
        return False


def chunk(stream: list[int], tokens: int, prefix: list[int]) -> tuple[list[list[int]], int]:
    """Rows of exactly ``tokens`` tokens, each led by ``prefix``, and how many tokens are left."""
    size = tokens - len(prefix)
    count = len(stream) // size
    rows = [prefix + stream[index * size : (index + 1) * size] for index in range(count)]
    return rows, len(stream) - count * size


def _cut(
    documents: dict[str, list[Document]], tokenizer: Tokenizer, tokens: int, mix_name: str
) -> dict[str, _Cut]:
    if tokens <= len(tokenizer.prefix):
        message = f"rows of {tokens} tokens have no room for text after the BOS token"
        raise ConfigError([Fault(mix_name, "tokens", message, "ask for longer rows")])
    faults: list[Fault] = []
    cuts = {}
    for name, texts in documents.items():
        encoded = [tokenizer.encode(text, faults) for text in texts]
        stream, ends = tokenizer.join(encoded)
        lengths = [len(ids) for ids in encoded]
        cuts[name] = _Cut(lengths, ends, len(stream), *chunk(stream, tokens, tokenizer.prefix))
    if faults:
        raise ConfigError(faults)
    return cuts


def _pick(available: int, count: int, seed: str) -> list[int]:
    # A seed a source: changing one source leaves the draw from the others as it was.
    return random.Random(seed).sample(range(available), count)


def _rows(mix: Mix, cuts: dict[str, _Cut], picks: dict[str, list[int]], seed: int) -> list[Any]:
    rows = []
    for name, source in mix.sources.items():
        rows += [
            {
                "id": f"{name}-{index:05d}",
                "source": name,
                "category": source.category,
                "input_ids": cuts[name].rows[index],
            }
            for index in picks[name]
        ]
    # Schemes may take only the first rows, so every stretch has to be a mix.
    random.Random(seed).shuffle(rows)
    return rows


def _account(
    mix: Mix, cuts: dict[str, _Cut], picks: dict[str, list[int]], samples: int
) -> dict[str, Any]:
    drawn = {name: len(indices) for name, indices in picks.items()}
    weights = {name: source.weight for name, source in mix.sources.items()}
    asked = largest_remainder(samples, weights)
    sources = {
        name: {
            "category": mix.sources[name].category,
            "rows_asked": asked[name],
            "rows_drawn": drawn[name],
            "rows_available": len(cut.rows),
            "weight_asked": round(weights[name] / sum(weights.values()), 6),
            "weight_got": round(drawn[name] / samples, 6),
            "documents": len(cut.lengths),
            "tokens": cut.total,
            "rows_not_drawn": len(cut.rows) - drawn[name],
            "documents_not_drawn": cut.not_drawn(picks[name]),
            "dropped_tail_tokens": cut.dropped,
            "document_tokens": {
                "min": min(cut.lengths),
                "p50": statistics.median(cut.lengths),
                "max": max(cut.lengths),
            },
        }
        for name, cut in cuts.items()
    }
    by_category: Counter[str] = Counter()
    for name, source in mix.sources.items():
        by_category[source.category] += drawn[name]
    notes = [
        f"'{name}' has {drawn[name]} of the {asked[name]} rows its weight asks for;"
        " the other sources gave the rest"
        for name in sources
        if drawn[name] < asked[name]
    ]
    notes += [
        f"'{name}' gives no row: its weight is too small for {samples} rows"
        if cut.rows
        else f"'{name}' gives no row: all its text is shorter than one"
        for name, cut in cuts.items()
        if not drawn[name]
    ]
    return {"rows_by_category": dict(by_category), "sources": sources, "notes": notes}
