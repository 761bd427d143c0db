"""Whether prefill computes with the keys and values that decode reads from the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from qpipe.config import Fidelity
from qpipe.fidelity._kl import coarse_kl
from qpipe.fidelity._texts import HELD_OUT, first_halves
from qpipe.serving import Client, PromptLogprobs, each
from qpipe.stats import cluster_mean_interval

__all__ = ["decode_vs_prefill"]

PROMPTS, TOKENS = 8, 12


def decode_vs_prefill(client: Client, texts: pd.DataFrame, settings: Fidelity) -> dict[str, Any]:
    """KL between what decode and what prefill gives at the same positions, nats a token.

    A few answers are decoded greedily, each token from keys and values in the cache; then prompt
    and answer are asked again as one prompt. Where prefill attends to keys and values before they
    are rounded into a quantized cache, it gives what another model would. The engine computes a
    prompt whose logprobs are asked as a whole: it reads no cached prefix for it.
    """
    held_out = texts[texts["kind"] == HELD_OUT]
    turn = held_out.groupby("category", sort=False).cumcount()
    some = held_out.loc[turn.sort_values(kind="stable").index[:PROMPTS]]
    prompts = first_halves(some)

    def decode(prompt: list[int]) -> tuple[list[int], PromptLogprobs]:
        return client.decode(prompt, TOKENS, settings.top_k)

    def prefill(prompt: list[int]) -> PromptLogprobs:
        return client.prompt_logprobs(prompt, settings.top_k)

    decoded = each(decode, prompts, settings.concurrency)
    wholes = [[*prompt, *tokens] for prompt, (tokens, _) in zip(prompts, decoded, strict=True)]
    prefilled = each(prefill, wholes, settings.concurrency)
    values: list[NDArray[np.float64]] = []
    for prompt, (tokens, p), q in zip(prompts, decoded, prefilled, strict=True):
        # An answer's first token comes from the prompt's prefill: it says nothing of decode.
        places = [(at, len(prompt) - 1 + at) for at in range(1, len(tokens))]
        kl = [coarse_kl(p.ids[i], p.logprobs[i], q.ids[j], q.logprobs[j]) for i, j in places]
        values.append(np.array(kl, dtype=np.float64))
    mean, low, high = cluster_mean_interval(values)
    return {
        "kl_mean": mean,
        "kl_ci_low": low,
        "kl_ci_high": high,
        "positions": sum(map(len, values)),
        "texts": len(values),
    }
