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
from qpipe.errors import ConfigError, Fault
from qpipe.paths import Workspace
from qpipe.records import SCHEMA_VERSION, digest, staged_dir, write_json, write_text

__all__ = ["build_calibration", "chunk"]


@dataclass(frozen=True)
class _Cut:
    """One source in tokens."""

    lengths: list[int]
    total: int
    rows: list[list[int]]
    dropped: int


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
    rows = _draw(mix, cuts, drawn, seed)
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "hash": digest(rows),
        "samples": samples,
        "tokens": tokens,
        "seed": seed,
        "mix": mix_name,
        "tokenizer_hash": tokenizer.hash,
        "eos_token_id": tokenizer.eos,
        **_account(mix, cuts, drawn, samples),
    }
    report["notes"] += tokenizer.notes
    with staged_dir(out_dir) as staged:
        lines = [json.dumps(row, separators=(",", ":")) + "\n" for row in rows]
        write_text(staged / "calib.jsonl", "".join(lines))
        write_json(staged / "report.json", report)
    return report


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
        stream = tokenizer.join(encoded)
        cuts[name] = _Cut(
            [len(ids) for ids in encoded], len(stream), *chunk(stream, tokens, tokenizer.prefix)
        )
    if faults:
        raise ConfigError(faults)
    return cuts


def _draw(mix: Mix, cuts: dict[str, _Cut], drawn: dict[str, int], seed: int) -> list[Any]:
    rows = []
    for name, source in mix.sources.items():
        # A seed of its own: changing one source leaves the draw from the others as it was.
        picks = random.Random(f"{seed}/{name}").sample(range(len(cuts[name].rows)), drawn[name])
        rows += [
            {
                "id": f"{name}-{index:05d}",
                "source": name,
                "category": source.category,
                "input_ids": cuts[name].rows[index],
            }
            for index in picks
        ]
    # Schemes may take only the first rows, so every stretch has to be a mix.
    random.Random(seed).shuffle(rows)
    return rows


def _account(
    mix: Mix, cuts: dict[str, _Cut], drawn: dict[str, int], samples: int
) -> dict[str, Any]:
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
    return {"rows_by_category": dict(by_category), "sources": sources, "notes": notes}
