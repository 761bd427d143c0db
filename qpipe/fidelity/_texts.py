"""The texts of the fidelity measurement: held-out ones, and the baseline's own answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import pandas as pd

from qpipe.config import BASELINE, LONG_CONTEXT, Config, Fidelity
from qpipe.errors import ConfigError, Fault
from qpipe.evaluation import Bos
from qpipe.model import load_tokenizer
from qpipe.records import digest, read_table

__all__ = [
    "ANSWER",
    "HELD_OUT",
    "first_halves",
    "held_out_texts",
    "load_paragraphs",
    "logprob_store",
]

HELD_OUT, ANSWER = "held-out", "answer"

Encode = Callable[[str], list[int]]


def logprob_store(config: Config) -> Path:
    """Where the baseline's logprobs lie."""
    return config.workspace.fidelity(BASELINE).with_suffix(".parquet")


def load_paragraphs(config: Config) -> dict[str, list[str]]:
    """The paragraphs of every held-out file, by category.

    Raises:
        ConfigError: there is no file, or one holds no text.
    """
    settings, faults = config.release.fidelity, []
    found: dict[str, list[str]] = {}
    for path in sorted((config.workspace.root / settings.texts).glob("*.txt")):
        where = f"{settings.texts}/{path.name}"
        try:
            parts = path.read_text(encoding="utf-8").split("\n\n")
        except UnicodeDecodeError as error:
            faults.append(Fault(where, "-", f"not UTF-8: {error}", "save it as UTF-8"))
            continue
        found[path.stem] = [part.strip("\n") for part in parts if part.strip()]
        if not found[path.stem]:
            faults.append(Fault(where, "-", "there is no text", "add paragraphs or remove it"))
    if not found and not faults:
        mend = "add CATEGORY.txt files"
        faults.append(Fault(settings.texts, "-", "there are no *.txt files", mend))
    if faults:
        raise ConfigError(faults)
    return found


def held_out_texts(config: Config, variant: str) -> pd.DataFrame:
    """Texts as token ids: ``kind``, ``category``, ``text_hash``, ``text`` (ids), ``first``.

    ``first`` is the first position that counts. For a variant the baseline's answers follow the
    held-out texts. All that can be wrong before ``variant`` is served is found here.

    Raises:
        MissingInput: the baseline was not measured.
        ConfigError: a held-out file is empty, all of them are too short for ``long_tokens``, or the
            texts changed since the baseline's run.
        InvalidMeasurement: a text would begin with BOS twice.
    """
    settings, workspace = config.release.fidelity, config.workspace
    paragraphs = load_paragraphs(config)
    tokenizer = load_tokenizer(workspace.model, config.release.model.trust_remote_code)
    bos = Bos.of(tokenizer)

    def encode(text: str) -> list[int]:
        return bos.begin(tokenizer(text, add_special_tokens=False)["input_ids"], chat=False)

    rows = [
        _held_out(category, encode(text)[: settings.max_tokens], 0)
        for category, parts in paragraphs.items()
        for text in parts[: settings.max_texts]
    ]
    rows += _long_texts(paragraphs, encode, settings)
    texts = pd.DataFrame([row for row in rows if len(row["text"]) > 1])
    texts = texts.drop_duplicates("text_hash", ignore_index=True)
    return texts if variant == BASELINE else _with_answers(config, texts)


def first_halves(texts: pd.DataFrame) -> list[list[int]]:
    """Prompts that leave the second half of each text to be answered."""
    return [ids[: max(1, len(ids) // 2)] for ids in texts["text"]]


def _held_out(category: str, ids: list[int], first: int) -> dict[str, Any]:
    row = {"kind": HELD_OUT, "category": category, "text_hash": digest(ids)}
    return {**row, "text": ids, "first": first}


def _long_texts(
    paragraphs: dict[str, list[str]], encode: Encode, settings: Fidelity
) -> Iterator[dict[str, Any]]:
    """All paragraphs in turns of the categories, beginning elsewhere for every text."""
    rounds = chain.from_iterable(zip_longest(*paragraphs.values()))
    parts = [part for part in rounds if part is not None]
    for length in settings.long_tokens:
        for index in range(settings.long_texts):
            start = index * len(parts) // settings.long_texts
            ids = encode("\n\n".join(parts[start:] + parts[:start]))
            if len(ids) < length:
                message = f"all held-out texts in a row are {len(ids)} tokens, {length} are asked"
                where = ("configs/release.yaml", "fidelity.long_tokens")
                raise ConfigError([Fault(*where, message, "add texts or ask for less")])
            # The last token predicts none of the text.
            first = max(0, length - 1 - settings.max_tokens)
            yield _held_out(LONG_CONTEXT, ids[:length], first)


def _with_answers(config: Config, texts: pd.DataFrame) -> pd.DataFrame:
    known = read_table(logprob_store(config), f"qpipe measure {BASELINE}", list(texts.columns))
    answers = known[known["kind"] == ANSWER]
    key = ["category", "text_hash", "first"]
    same = [
        sorted(rows[key].itertuples(index=False, name=None))
        for rows in (known[known["kind"] == HELD_OUT], texts)
    ]
    if same[0] != same[1]:
        message = "the held-out texts differ from those of the baseline's run"
        mend = f"run `qpipe measure {BASELINE}` again"
        raise ConfigError([Fault(config.release.fidelity.texts, "-", message, mend)])
    answers = answers.assign(text=answers["text"].map(lambda ids: [int(token) for token in ids]))
    return pd.concat([texts, answers], ignore_index=True)
