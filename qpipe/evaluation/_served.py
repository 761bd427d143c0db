"""lm-eval's model for a served variant. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientTimeout, TCPConnector
from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook, CachingLM, hash_args
from lm_eval.api.registry import register_model
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from qpipe.errors import EngineError, InvalidMeasurement
from qpipe.evaluation._prompts import Bos, render
from qpipe.serving import require_ended

__all__ = ["Answer", "LogProb", "ServedModel", "served_model"]

# lm-eval cuts longer prompts on the left without a word; the engine refuses them with one.
_NO_LIMIT = 1 << 30
_LIKELIHOOD = "loglikelihood"  # under which lm-eval keeps answers
_ATTEMPTS = 3
_TIMEOUT_S = 600
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
# Of requests that fail together lm-eval awaits one; what becomes of the others is no news.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)


_Window = tuple[tuple[int, ...], tuple[int, ...]]  # tokens given, tokens scored


class Answer(str):
    """A generated text with what the engine says of it; lm-eval hands it through untouched."""

    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class LogProb(float):
    """A continuation's log-likelihood with the number of tokens sent for it."""

    prompt_tokens: int = 0


@register_model("qpipe-completions")
class ServedModel(LocalCompletionsAPI):  # type: ignore[misc]
    """``local-completions`` that keeps finish reasons and token counts and checks BOS.

    Requests are sent longest first, or, ``backwards``, shortest first.
    """

    def __init__(self, window: int, *, backwards: bool = False, **arguments: Any) -> None:
        super().__init__(
            tokenizer_backend="huggingface",
            tokenized_requests=True,
            max_length=_NO_LIMIT,
            **arguments,
        )
        self._window = window
        self._in_windows = False
        self._backwards = backwards
        self.bos = Bos.of(self.tokenizer)
        self.chat = False
        """Whether prompts are rendered chats."""
        self.sent: Counter[bool] = Counter()
        """Requests, by whether BOS begins their prompt."""

    def tok_encode(self, string: Any, left_truncate_len: int | None = None, **_: Any) -> Any:
        """Token ids with exactly the BOS the tokenizer's own templates give."""
        encoded = self.tokenizer(
            string, add_special_tokens=False, return_attention_mask=False
        ).input_ids
        if isinstance(string, str):
            return self.bos.begin(encoded, self.chat)
        return [self.bos.begin(ids, self.chat) for ids in encoded]

    def _create_payload(self, messages: list[list[int]], **settings: Any) -> dict[str, Any]:
        """The request's body; every prompt passes here on its way to the engine."""
        for prompt in messages:
            if not self._in_windows:  # most begin in the middle of a text
                self.bos.check(prompt, self.chat)
                self.sent[self.bos.begins(prompt)] += 1
        body: dict[str, Any] = super()._create_payload(messages, **settings)
        return body

    def bos_record(self) -> dict[str, Any]:
        """The BOS token's ids, and the share of requests that it began (``None`` without any)."""
        count = self.sent.total()
        return {"ids": list(self.bos.ids), "share": self.sent[True] / count if count else None}

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The conversation as the model's template writes it, without thinking."""
        return render(self.tokenizer, chat_history, add_generation_prompt)

    def generate_until(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[Answer | None]:
        """The answers, asked in one stream.

        lm-eval sends requests of equal settings together and waits for the last of each such group,
        so that the engine idles between groups.
        """
        prompts = self.tok_encode([request.args[0] for request in requests])
        for prompt, request in zip(prompts, requests, strict=True):
            self._check_fits(len(prompt), int(request.args[1].get("max_gen_toks", 1)))
        order = sorted(
            range(len(requests)),
            key=lambda index: -len(requests[index].args[0]),
            reverse=self._backwards,
        )
        return asyncio.run(self._answers(requests, prompts, order))

    async def _answers(
        self, requests: list[Instance], prompts: list[list[int]], order: Sequence[int]
    ) -> list[Answer | None]:
        answers: list[Answer | None] = [None] * len(requests)
        slots = asyncio.Semaphore(self._concurrent)
        connector = TCPConnector(limit=self._concurrent)
        timeout = ClientTimeout(total=self.timeout)
        async with ClientSession(connector=connector, timeout=timeout) as session:

            async def ask(index: int) -> None:
                attempts = AsyncRetrying(
                    stop=stop_after_attempt(self.max_retries),
                    wait=wait_exponential(multiplier=0.5, min=1, max=10),
                    reraise=True,
                )
                (answers[index],) = await attempts(
                    self.amodel_call,
                    session=session,
                    sem=slots,
                    messages=[prompts[index]],
                    cache_keys=[requests[index].args],
                    gen_kwargs=requests[index].args[1],
                )

            await asyncio.gather(*(ask(index) for index in order))
        return answers

    def _loglikelihood_tokens(self, requests: list[Any], **more: Any) -> Any:
        for _, context, continuation in requests:
            self._check_fits(len(context) + len(continuation), 1)
        return super()._loglikelihood_tokens(requests, **more)

    def _check_fits(self, prompt: int, answer: int) -> None:
        """Neither is cut: another prompt is another question.

        Raises:
            InvalidMeasurement: the two are longer than the context that every variant has.
        """
        if prompt + answer > self._window:
            raise InvalidMeasurement(
                f"a prompt of {prompt} tokens and its answer of up to {answer} are longer than the"
                f" context of {self._window}",
                mend="raise `serve.max_model_len` of all variants, ask with fewer examples"
                " (`num_fewshot`), or take the task out of its suite",
            )

    async def get_batched_requests(
        self,
        requests: Sequence[Any],
        cache_keys: Sequence[Any],
        *,
        ctxlens: Sequence[int] | None = None,
        **more: Any,
    ) -> Any:
        """Results in the order of ``requests``, which are sent in this order or backwards."""
        step = -1 if self._backwards else 1
        found = await super().get_batched_requests(
            requests[::step],
            cache_keys[::step],
            ctxlens=ctxlens and ctxlens[::step],
            **more,
        )
        return found[::step]

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """The log-likelihood of each text, in the windows that ``local-completions`` cuts.

        All windows of all texts go out together, and answers are kept a window.
        """
        texts = [self._windows(*request.args) for request in requests]
        kept = self.cache_hook.dbdict or {}
        keys = {window: hash_args(_LIKELIHOOD, window) for windows in texts for window in windows}
        answers = {window: kept[key] for window, key in keys.items() if key in kept}
        new = [window for window in keys if window not in answers]
        if new:
            asked = [(window, *map(list, window)) for window in new]
            self._in_windows = True
            answers |= zip(new, self._loglikelihood_tokens(asked), strict=True)
            self._in_windows = False
        # Plain floats: what lm-eval sums them to must not hang on their type.
        return [sum((float(answers[each][0]) for each in windows), 0.0) for windows in texts]

    def _windows(self, text: str) -> list[_Window]:
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        # One token stands before the first, and one is generated.
        windows = get_rolling_token_windows(ids, self.prefix_token_id, self._window - 2, 1)
        return [
            (tuple(context), tuple(scored))
            for context, scored in map(make_disjoint_window, windows)
        ]

    @staticmethod
    def parse_generations(outputs: Any, **_: Any) -> list[Answer]:
        """The texts of a response, each with its finish reason and token counts."""
        try:
            return [_answer(choice, usage) for choice, usage in _choices(outputs)]
        except _MALFORMED as error:
            raise _malformed(outputs) from error

    @staticmethod
    def parse_logprobs(
        outputs: Any,
        tokens: list[list[int]] | None = None,
        ctxlens: list[int] | None = None,
        **_: Any,
    ) -> list[tuple[LogProb, bool]]:
        """Log-likelihoods of the continuations in a response."""
        tokens = tokens or []
        try:
            scored = [len(choice["logprobs"]["token_logprobs"]) for choice, _ in _choices(outputs)]
            pairs = LocalCompletionsAPI.parse_logprobs(outputs, tokens=tokens, ctxlens=ctxlens)
        except _MALFORMED as error:
            raise _malformed(outputs) from error
        results = []
        for (value, greedy), sent, count in zip(pairs, tokens, scored, strict=True):
            # One token is generated beyond the echoed prompt.
            if count != len(sent) + 1 or not math.isfinite(value):
                raise EngineError(
                    f"the engine scored {count - 1} of {len(sent)} prompt tokens, sum {value}",
                    mend="the engine must echo every prompt token with its log-probability",
                )
            result = LogProb(value)
            result.prompt_tokens = len(sent)
            results.append((result, greedy))
        return results


def _malformed(outputs: Any) -> EngineError:
    return EngineError(
        f"the engine's answer is malformed: {outputs!r:.300}",
        mend="see the engine's log, and whether this version of it still speaks /v1/completions",
    )


def _choices(outputs: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The one choice of each response, and what the response says of its tokens.

    lm-eval takes what comes: a choice more or less would lead it astray.
    """
    for output in outputs if isinstance(outputs, list) else [outputs]:
        (choice,) = output["choices"]
        require_ended(choice)
        yield choice, output.get("usage") or {}


def _answer(choice: dict[str, Any], usage: dict[str, Any]) -> Answer:
    if not isinstance(choice["text"], str):
        raise TypeError("no text")
    answer = Answer(choice["text"])
    answer.finish_reason = choice["finish_reason"]
    answer.prompt_tokens = usage.get("prompt_tokens")
    answer.completion_tokens = usage.get("completion_tokens")
    return answer


@contextmanager
def answered(model: ServedModel, path: Path, chat: bool) -> Iterator[CachingLM]:
    """``model`` with its answers kept in ``path`` as they come, and not asked for again.

    A file serves one cell, whose prompts are rendered chats or none are: lm-eval leaves the model
    out of its keys.
    """
    model.chat = chat
    model.sent.clear()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _sound(path):  # as good as none
        for damaged in (path, path.with_name(f"{path.name}-journal")):
            damaged.unlink(missing_ok=True)
    lm = CachingLM(model, str(path))
    try:
        yield lm
    finally:
        lm.dbdict.close()
        model.set_cache_hook(CacheHook(None))


def _sound(path: Path) -> bool:
    """Whether SQLite can read all of the file; what a kill left half written, it takes back."""
    try:
        with closing(sqlite3.connect(path)) as database:
            return bool(database.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def served_model(
    base_url: str,
    model_id: str,
    tokenizer_dir: Path,
    *,
    concurrency: int,
    window: int,
    seed: int,
    backwards: bool = False,
    trust_remote_code: bool = False,
) -> ServedModel:
    """The model behind ``base_url``, which ends in ``/v1``; ``window`` is in tokens."""
    return ServedModel(
        backwards=backwards,
        model=model_id,
        base_url=f"{base_url.rstrip('/')}/completions",
        tokenizer=str(tokenizer_dir),
        num_concurrent=concurrency,
        max_retries=_ATTEMPTS,
        timeout=_TIMEOUT_S,
        window=window,
        seed=seed,
        trust_remote_code=trust_remote_code,
        batch_size=1,
    )
