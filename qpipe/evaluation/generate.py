"""Writes the business rows: ``python -m qpipe.evaluation.generate --out evalsets/business``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from qpipe.evaluation.generators import WORDS, categories, draw
from qpipe.records import write_text

__all__ = ["generate", "main"]


def generate(out: Path, seed: int, rows: int, words: Sequence[int] = WORDS) -> list[Path]:
    """Write one JSONL a category into ``out``; the same arguments give the same bytes.

    Args:
        out: folder for the files.
        seed: seed of the draw.
        rows: rows a category.
        words: lengths of the long-context texts in words.
    """
    paths = []
    for category, templates in categories(words).items():
        drawn = draw(category, templates, seed, rows)
        path = out / f"{category}.jsonl"
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in drawn))
        paths.append(path)
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Command line of the generator."""
    parser = argparse.ArgumentParser(
        prog="python -m qpipe.evaluation.generate", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSONL files")
    parser.add_argument("--seed", type=int, default=7, help="seed of the draw")
    parser.add_argument("--rows", type=int, default=40, help="rows a category")
    parser.add_argument(
        "--words",
        type=_lengths,
        default=WORDS,
        metavar="N,N,…",
        help="lengths of the long-context texts in words of about 1.3 tokens "
        f"(default: {','.join(map(str, WORDS))})",
    )
    options = parser.parse_args(arguments)
    for path in generate(options.out, options.seed, options.rows, options.words):
        print(path)


def _lengths(text: str) -> tuple[int, ...]:
    lengths = tuple(int(part) for part in text.split(","))
    if min(lengths) < 400 or len(set(lengths)) < len(lengths):
        raise argparse.ArgumentTypeError("give different lengths of at least 400 words")
    return lengths


if __name__ == "__main__":
    main()
