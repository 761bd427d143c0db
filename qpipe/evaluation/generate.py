"""Writes the business rows: ``python -m qpipe.evaluation.generate --out evalsets/business``."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qpipe.errors import QpipeError
from qpipe.evaluation.generators import (
    DEPTHS,
    LENGTHS,
    Length,
    categories,
    draw,
    in_tokens,
    in_words,
)
from qpipe.model import load_tokenizer
from qpipe.records import write_text

if TYPE_CHECKING:
    from qpipe.config import Config

__all__ = ["generate", "main"]

FIVE_DEPTHS = (10, 30, 50, 70, 90)
SHORTEST_WORDS, SHORTEST_TOKENS = 400, 1024


def generate(
    out: Path,
    seed: int,
    rows: int,
    lengths: Sequence[Length] = LENGTHS,
    depths: Sequence[int] = DEPTHS,
    only: Sequence[str] | None = None,
) -> list[Path]:
    """Write one JSONL a category into ``out``; the same arguments give the same bytes.

    Args:
        out: folder for the files.
        seed: seed of the draw.
        rows: rows a category.
        lengths: of the long-context questions.
        depths: of their asked facts, percent of the text.
        only: categories to write; all when absent.
    """
    paths = []
    for category, templates in categories(lengths, depths).items():
        if only and category not in only:
            continue
        drawn = draw(category, templates, seed, rows)
        path = out / f"{category}.jsonl"
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in drawn))
        paths.append(path)
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Command line of the generator."""
    parser = argparse.ArgumentParser(
        prog="python -m qpipe.evaluation.generate",
        description=__doc__,
        epilog="long-context questions of a release: --rows 200 --tokens 1k,2k,4k,max",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSONL files")
    parser.add_argument("--seed", type=int, default=7, help="seed of the draw")
    parser.add_argument("--rows", type=int, default=40, help="rows a category")
    parser.add_argument(
        "--category",
        action="append",
        choices=list(categories()),
        help="write only this category; may be given more than once",
    )
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument(
        "--words",
        type=_words,
        metavar="N,N,…",
        help="lengths of the long-context texts in words of about 1.3 tokens "
        f"(default: {','.join(str(length.words) for length in LENGTHS)})",
    )
    lengths.add_argument(
        "--tokens",
        type=_tokens,
        metavar="N,N,…",
        help="lengths of the long-context prompts with their answers in tokens, like 1k,2k,8k "
        "(1k is 1024); `max` is the shortest context of the release here, or the model's limit",
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        default=Path("out/model"),
        metavar="DIR",
        help="the model that --tokens are counted with (default: out/model)",
    )
    parser.add_argument(
        "--depths",
        type=_depths,
        metavar="P,P,…",
        help="depths of the asked facts in percent of the text (default: "
        f"{_listed(FIVE_DEPTHS)} with --tokens, else {_listed(DEPTHS)})",
    )
    options = parser.parse_args(arguments)
    chosen: Sequence[Length] = options.words or LENGTHS
    try:
        if options.tokens:
            chosen = _counted(options.tokens, options.tokenizer)
        depths = options.depths or (FIVE_DEPTHS if options.tokens else DEPTHS)
        for path in generate(
            options.out, options.seed, options.rows, chosen, depths, options.category
        ):
            print(path)
    except (ValueError, QpipeError) as error:
        parser.error(str(error))


def _counted(tokens: Sequence[int | None], folder: Path) -> list[Length]:
    """Lengths by the tokenizer in ``folder``; ``None`` stands for the longest that fits."""
    config = _release_here()
    sizes = {_longest(folder, config) if size is None else size for size in tokens}
    # The release says whether its model's code may run.
    count = _tokenizer(folder, config is not None and config.release.model.trust_remote_code)
    return [in_tokens(size, count) for size in sorted(sizes)]


def _tokenizer(folder: Path, trust: bool) -> Callable[[str], int]:
    mend = "name the model's folder with --tokenizer, or run `qpipe model` first"
    return partial(_count, load_tokenizer(folder, trust, mend=mend))


def _release_here() -> Config | None:
    from qpipe.config import load_config
    from qpipe.paths import Workspace

    workspace = Workspace.here()
    return load_config(workspace) if workspace.release.exists() else None


def _count(tokenizer: Any, text: str) -> int:
    return len(tokenizer(text, verbose=False)["input_ids"])


def _longest(folder: Path, config: Config | None) -> int:
    """The model's limit, or the shortest context of the release here if that is less."""
    from qpipe.serving import shortest_context

    limits = []
    if (folder / "config.json").is_file():
        body = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        body = body.get("text_config", body)
        limits += [body["max_position_embeddings"]] if "max_position_embeddings" in body else []
    if config is not None:
        limits.append(shortest_context(config))
    if not limits:
        raise ValueError(f"`max` is not known: there is no release here, and no limit in {folder}")
    if min(limits) < SHORTEST_TOKENS:
        raise ValueError(f"`max` is {min(limits)} tokens, fewer than {SHORTEST_TOKENS}")
    return int(min(limits))


def _words(text: str) -> list[Length]:
    sizes = [int(part) for part in text.split(",")]
    if min(sizes) < SHORTEST_WORDS or len(set(sizes)) < len(sizes):
        message = f"give different lengths of at least {SHORTEST_WORDS} words"
        raise argparse.ArgumentTypeError(message)
    return [in_words(size) for size in sizes]


def _tokens(text: str) -> list[int | None]:
    sizes = [None if part == "max" else _size(part) for part in text.split(",")]
    known = [size for size in sizes if size is not None]
    if min(known, default=SHORTEST_TOKENS) < SHORTEST_TOKENS or len(set(sizes)) < len(sizes):
        raise argparse.ArgumentTypeError("give different lengths of at least 1k, or `max`")
    return sizes


def _size(text: str) -> int:
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(k?)", text)
    if number is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no length: give 2k, 3000 or max")
    return int(float(number[1]) * (1024 if number[2] else 1))


def _depths(text: str) -> list[int]:
    depths = [int(part) for part in text.split(",")]
    if not all(5 <= depth <= 95 for depth in depths) or len(set(depths)) < len(depths):
        raise argparse.ArgumentTypeError("give different depths from 5 to 95")
    return depths


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


if __name__ == "__main__":
    main()
