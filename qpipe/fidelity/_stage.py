"""The fidelity part of ``qpipe measure``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pandas as pd

from qpipe.config import BASELINE, Config, Fidelity
from qpipe.errors import InvalidMeasurement
from qpipe.fidelity._probe import decode_vs_prefill
from qpipe.fidelity._summary import compare_texts
from qpipe.fidelity._texts import ANSWER, first_halves, logprob_store
from qpipe.records import digest, read_table, write_json
from qpipe.schemes import quantized_kv
from qpipe.serving import Client, another_concurrency, each

__all__ = ["measure_fidelity", "served_logprobs"]


def measure_fidelity(
    config: Config,
    variant: str,
    texts: pd.DataFrame,
    client: Client,
    provenance: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Write ``out/fidelity/<variant>.json``; the baseline's logprobs are stored beside its record.

    The baseline also answers the first halves of some texts greedily, and its texts are asked a
    second time in reverse order and at another concurrency: what differs then is the noise floor.
    Where keys and values are quantized, and on the baseline, decode is held against prefill.

    Args:
        config: The release.
        variant: Name of the variant that ``client``'s server serves.
        texts: What ``held_out_texts`` gave.
        client: Of the variant's server.
        provenance: What the record says it was measured on.
        progress: Called with one line for every step.

    Raises:
        InvalidMeasurement: a quantized variant answers exactly like the baseline.
    """
    settings = config.release.fidelity
    checkpoint = provenance.get("checkpoint_hash")
    noise: dict[str, Any] | None = None
    before = client.tokens()
    if variant == BASELINE:
        texts = pd.concat([texts, _answers(client, texts, settings)], ignore_index=True)
        progress(f"fidelity on {len(texts)} texts")
        measured = baseline = served_logprobs(client, texts, settings, settings.concurrency)
        progress("fidelity again, in reverse order")
        noise = _noise(client, texts, settings, baseline)
        # In the rows, so that the logprobs cannot be taken for another checkpoint's.
        _keep(config, baseline.assign(checkpoint_hash=checkpoint))
        baseline_checkpoint = checkpoint
    else:
        progress(f"fidelity on {len(texts)} texts")
        baseline = read_table(logprob_store(config), f"qpipe measure {BASELINE}")
        baseline_checkpoint = baseline["checkpoint_hash"].iloc[0]
        measured = served_logprobs(client, texts, settings, settings.concurrency)
    exercises, probe = client.tokens().since(before), None
    if variant == BASELINE or quantized_kv(provenance):
        progress("decode against prefill")
        probe = decode_vs_prefill(client, texts, settings)
    record = {
        "variant": variant,
        "baseline": BASELINE,
        "baseline_checkpoint_hash": baseline_checkpoint,
        "self": variant == BASELINE,
        "top_k": settings.top_k,
        "lower_bound": "KL over shared top-k tokens and one bucket: at most the full KL",
        **compare_texts(baseline, measured),
        "noise": noise,
        "decode_vs_prefill": probe,
        "exercises": exercises,
        "data_hash": digest(sorted(texts["text_hash"]), settings.top_k),
        "provenance": provenance,
    }
    moved = record["kl_max"] > 0.0 or (probe is not None and probe["kl_mean"] > 0.0)
    if config.scheme_of(variant) is not None and not moved:
        # Rounding always moves some logprob, if only of decode, where only that reads a quantized
        # cache: identical answers mean that it did not happen.
        raise InvalidMeasurement(
            f"'{variant}' answers exactly like the baseline: its quantization did not take effect",
            mend="see the engine's log for the checkpoint and kernels that it loaded",
        )
    write_json(config.workspace.fidelity(variant), record)
    return record


def served_logprobs(
    client: Client, texts: pd.DataFrame, settings: Fidelity, concurrency: int
) -> pd.DataFrame:
    """``texts`` with the served model's logprobs at each position."""
    found = each(
        lambda ids: client.prompt_logprobs(ids, settings.top_k), list(texts["text"]), concurrency
    )
    columns = pd.DataFrame([asdict(answer) for answer in found], index=texts.index)
    return pd.concat([texts, columns], axis=1)


def _answers(client: Client, texts: pd.DataFrame, settings: Fidelity) -> pd.DataFrame:
    """Greedy continuations of the first halves of some texts, as texts of their own."""
    some = texts.groupby("category", sort=False).head(settings.answers)
    prompts = first_halves(some)
    tails = each(
        lambda ids: client.complete(ids, settings.answer_tokens), prompts, settings.concurrency
    )
    rows = []
    for category, prompt, tail in zip(some["category"], prompts, tails, strict=True):
        if tail:
            ids = [*prompt, *tail]
            row = {"kind": ANSWER, "category": category, "text_hash": digest(ids)}
            # The distribution that the prompt's last token gives is that of the first answer.
            rows.append({**row, "text": ids, "first": len(prompt) - 1})
    found = pd.DataFrame(rows, columns=list(texts.columns))
    return found.drop_duplicates("text_hash", ignore_index=True)


def _noise(
    client: Client, texts: pd.DataFrame, settings: Fidelity, baseline: pd.DataFrame
) -> dict[str, Any]:
    concurrency = another_concurrency(settings.concurrency)
    again = served_logprobs(client, texts[::-1].reset_index(drop=True), settings, concurrency)
    return {"order": "reverse", "concurrency": concurrency, **compare_texts(baseline, again)}


def _keep(config: Config, baseline: pd.DataFrame) -> None:
    store = logprob_store(config)
    store.parent.mkdir(parents=True, exist_ok=True)
    beside = store.with_suffix(".partial")
    baseline.to_parquet(beside)
    beside.replace(store)
