"""Writes the business rows: ``python -m qpipe.evaluation.generate --out evalsets/business``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from qpipe.evaluation.generators import MAKERS, draw
from qpipe.records import write_text

__all__ = ["generate", "main"]


def generate(out: Path, seed: int, rows: int) -> list[Path]:
    """Write one JSONL a category into ``out``; the same seed and count give the same bytes."""
    paths = []
    for category, makers in MAKERS.items():
        drawn = draw(category, makers, seed, rows)
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
    options = parser.parse_args(arguments)
    for path in generate(options.out, options.seed, options.rows):
        print(path)


if __name__ == "__main__":
    main()
