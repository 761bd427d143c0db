"""The fidelity part of ``qpipe measure``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from qpipe.config import Config
from qpipe.errors import ConfigError, Fault, InvalidMeasurement
from qpipe.fidelity._kl import coarse_kl
from qpipe.records import digest, read_table, write_json
from qpipe.serving import Client
from qpipe.stats import cluster_mean_interval

__all__ = ["held_out_texts", "load_paragraphs", "measure_fidelity"]

BASELINE = "bf16"


def measure_fidelity(
    config: Config,
    variant: str,
    texts: pd.DataFrame,
    client: Client,
    provenance: dict[str, Any],
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Write ``out/fidelity/<variant>.json``; the baseline's logprobs are stored beside its record.

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
    workspace, settings = config.workspace, config.release.fidelity
    progress(f"fidelity on {len(texts)} held-out texts")
    with ThreadPoolExecutor(settings.concurrency) as pool:
        try:
            answers = list(
                pool.map(lambda ids: client.prompt_logprobs(ids, settings.top_k), texts["ids"])
            )
        except BaseException:  # Ctrl-C must not wait for the texts that are still to come
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    columns = pd.DataFrame([asdict(answer) for answer in answers])
    measured = pd.concat([texts[["category", "text_hash"]], columns], axis=1)
    # In the rows, so that the baseline's logprobs cannot be taken for another checkpoint's.
    measured = measured.assign(checkpoint_hash=provenance.get("checkpoint_hash"))
    data_hash = digest(sorted(texts["text_hash"]), settings.top_k)
    store = workspace.fidelity(BASELINE).with_suffix(".parquet")
    if variant == BASELINE:
        store.parent.mkdir(parents=True, exist_ok=True)
        beside = store.with_suffix(".partial")
        measured.to_parquet(beside)
        beside.replace(store)
        baseline = measured
    else:
        baseline = read_table(store, f"qpipe measure {BASELINE}")
    paired = baseline.merge(measured, on=["category", "text_hash"], suffixes=("_p", "_q"))
    rows = [_position_values(row) for row in paired.to_dict("records")]
    per_text = pd.DataFrame(rows).assign(category=list(paired["category"]))
    record = {
        "variant": variant,
        "baseline": BASELINE,
        "baseline_checkpoint_hash": paired["checkpoint_hash_p"].iloc[0],
        "self": variant == BASELINE,
        "top_k": settings.top_k,
        "lower_bound": "KL over shared top-k tokens and one bucket: at most the full KL",
        **_summary(per_text),
        "data_hash": data_hash,
        "provenance": provenance,
        "categories": {
            str(name): _summary(group) for name, group in per_text.groupby("category", sort=True)
        },
    }
    if config.scheme_of(variant) is not None and record["kl_max"] == 0.0:
        # Rounding always moves some logprob: identical answers mean that it did not happen.
        raise InvalidMeasurement(
            f"'{variant}' answers exactly like the baseline: its quantization did not take effect",
            mend="see the engine's log for the checkpoint and kernels that it loaded",
        )
    write_json(workspace.fidelity(variant), record)
    return record


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
    return {category: parts[: settings.max_texts] for category, parts in found.items()}


def held_out_texts(config: Config, variant: str) -> pd.DataFrame:
    """Held-out texts as token ids: ``category``, ``text_hash``, ``ids``.

    All that can be wrong before ``variant`` is served is found here.

    Raises:
        MissingInput: the baseline was not measured.
        ConfigError: a held-out file is empty, or the texts changed since the baseline's run.
    """
    from transformers import AutoTokenizer

    settings, workspace = config.release.fidelity, config.workspace
    paragraphs = load_paragraphs(config)
    tokenizer = AutoTokenizer.from_pretrained(
        workspace.model, trust_remote_code=config.release.model.trust_remote_code
    )
    rows = []
    for category, parts in paragraphs.items():
        for text in parts:
            ids = tokenizer(text)["input_ids"][: settings.max_tokens]
            if len(ids) > 1:
                rows.append({"category": category, "text_hash": digest(ids), "ids": ids})
    texts = pd.DataFrame(rows).drop_duplicates("text_hash", ignore_index=True)
    if variant != BASELINE:
        _check_baseline(config, texts)
    return texts


def _check_baseline(config: Config, texts: pd.DataFrame) -> None:
    store = config.workspace.fidelity(BASELINE).with_suffix(".parquet")
    key = ["category", "text_hash"]
    baseline = read_table(store, f"qpipe measure {BASELINE}", key)
    if sorted(baseline.itertuples(index=False)) != sorted(texts[key].itertuples(index=False)):
        message = "the held-out texts differ from those of the baseline's run"
        mend = f"run `qpipe measure {BASELINE}` again"
        raise ConfigError([Fault(config.release.fidelity.texts, "-", message, mend)])


def _position_values(row: dict[Any, Any]) -> dict[str, Any]:
    """Per-position values of one text, measured on both servers."""
    both = zip(row["ids_p"], row["logprobs_p"], row["ids_q"], row["logprobs_q"], strict=True)
    kl, agree = [], []
    for ids_p, logprobs_p, ids_q, logprobs_q in both:
        kl.append(coarse_kl(list(ids_p), list(logprobs_p), list(ids_q), list(logprobs_q)))
        agree.append(ids_p[0] == ids_q[0])
    return {
        "kl": np.array(kl),
        "agree": np.array(agree, dtype=float),
        "nll_p": -np.asarray(row["actual_p"], dtype=float),
        "nll_q": -np.asarray(row["actual_q"], dtype=float),
    }


def _summary(texts: pd.DataFrame) -> dict[str, Any]:
    kl = np.concatenate(list(texts["kl"]))
    mean, low, high = cluster_mean_interval(list(texts["kl"]))
    # The rate of disagreement, like KL, is a small positive number.
    differ, differ_low, differ_high = cluster_mean_interval([1 - text for text in texts["agree"]])
    p50, p95, p99 = np.percentile(kl, [50, 95, 99])
    nll = {side: np.concatenate(list(texts[f"nll_{side}"])).mean() for side in "pq"}
    return {
        "texts": len(texts),
        "positions": len(kl),
        "kl_mean": mean,
        "kl_ci_low": low,
        "kl_ci_high": high,
        "kl_p50": float(p50),
        "kl_p95": float(p95),
        "kl_p99": float(p99),
        "kl_max": float(kl.max()),
        "top1_agreement": 1 - differ,
        "top1_ci_low": max(0.0, 1 - differ_high),
        "top1_ci_high": 1 - differ_low,
        "perplexity_baseline": float(np.exp(nll["p"])),
        "perplexity": float(np.exp(nll["q"])),
    }
