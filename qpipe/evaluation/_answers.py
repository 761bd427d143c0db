"""What an engine answers over ``/v1/completions``. Imports lm_eval: import it inside functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lm_eval.models.openai_completions import LocalCompletionsAPI

from qpipe.errors import EngineError
from qpipe.serving import require_ended

__all__ = ["Answer", "LogProb", "Usage", "generated", "likelihoods"]

_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class Usage:
    """What the engine says a request took."""

    prompt_tokens: int
    cached_tokens: int
    """Of the prompt, read from the prefix cache."""
    completion_tokens: int


class Answer(str):
    """A generated text with what the engine says of it; lm-eval hands it through untouched."""

    finish_reason: str
    usage: Usage
    bos: bool
    """Whether BOS begins the prompt that was sent."""


class LogProb(float):
    """A continuation's log-likelihood with what the engine says of it."""

    usage: Usage
    bos: bool | None
    """Whether BOS begins the prompt that was sent; ``None`` in the middle of a text."""


def generated(outputs: Any) -> list[Answer]:
    """The text of each response, with its finish reason and token counts.

    Raises:
        EngineError: a response has none, or was broken off.
    """
    try:
        return [_answer(choice, usage) for choice, usage in _choices(outputs)]
    except _MALFORMED as error:
        raise _malformed(outputs) from error


def likelihoods(
    outputs: Any, tokens: list[list[int]], context_lengths: list[int]
) -> list[tuple[LogProb, bool]]:
    """The log-likelihood of each continuation, and whether it is the greedy one.

    ``tokens`` are those that were sent, whose first ``context_lengths`` are not scored.

    Raises:
        EngineError: a response does not score each token.
    """
    try:
        said = [
            (len(choice["logprobs"]["token_logprobs"]), usage)
            for choice, usage in _choices(outputs)
        ]
        pairs = LocalCompletionsAPI.parse_logprobs(outputs, tokens=tokens, ctxlens=context_lengths)
    except _MALFORMED as error:
        raise _malformed(outputs) from error
    results = []
    for (value, greedy), sent, (count, usage) in zip(pairs, tokens, said, strict=True):
        # One token is generated beyond the echoed prompt.
        if count != len(sent) + 1 or not math.isfinite(value):
            raise EngineError(
                f"the engine scored {count - 1} of {len(sent)} prompt tokens, sum {value}",
                mend="the engine must echo every prompt token with its log-probability",
            )
        result = LogProb(value)
        result.usage = usage
        results.append((result, greedy))
    return results


def _malformed(outputs: Any) -> EngineError:
    return EngineError(
        f"the engine's answer is malformed: {outputs!r:.300}",
        mend="see the engine's log, and whether this version of it still speaks /v1/completions",
    )


def _choices(outputs: Any) -> Iterator[tuple[dict[str, Any], Usage]]:
    """The one choice of each response, and what the response says of its tokens.

    lm-eval takes what comes: a choice more or less would lead it astray.
    """
    for output in outputs if isinstance(outputs, list) else [outputs]:
        (choice,) = output["choices"]
        require_ended(choice)
        usage = output["usage"]
        yield (
            choice,
            Usage(
                prompt_tokens=usage["prompt_tokens"],
                cached_tokens=usage["prompt_tokens_details"]["cached_tokens"],
                completion_tokens=usage["completion_tokens"],
            ),
        )


def _answer(choice: dict[str, Any], usage: Usage) -> Answer:
    if not isinstance(choice["text"], str):
        raise TypeError("no text")
    answer = Answer(choice["text"])
    answer.finish_reason = choice["finish_reason"]
    answer.usage = usage
    return answer
