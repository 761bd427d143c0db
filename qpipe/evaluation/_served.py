"""lm-eval's model for a served variant. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector
from lm_eval.api.instance import Instance
from lm_eval.api.model import CacheHook, CachingLM, hash_args
from lm_eval.api.registry import register_model
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from requests import RequestException
from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

from qpipe.errors import EngineError, InvalidMeasurement
from qpipe.evaluation._prompts import Bos, render
from qpipe.serving import require_ended

__all__ = [
    "FAILED",
    "Answer",
    "LogProb",
    "ServedModel",
    "Usage",
    "answered",
    "request_failed",
    "served_model",
]

# How a request fails. Not every OSError: a full disk is no failed request.
FAILED = (ClientError, RequestException, JSONDecodeError, TimeoutError, ConnectionError)

# lm-eval cuts longer prompts on the left without a word; the engine refuses them with one.
_NO_LIMIT = 1 << 30
# Under which lm-eval keeps answers.
_GENERATION, _LIKELIHOOD = "generate_until", "loglikelihood"
_ATTEMPTS = 3
_TIMEOUT_S = 600
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)
# Of requests that fail together lm-eval awaits one; what becomes of the others is no news.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)


_Window = tuple[tuple[int, ...], tuple[int, ...]]  # tokens given, tokens scored


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


@register_model("qpipe-completions")
class ServedModel(LocalCompletionsAPI):  # type: ignore[misc]
    """``local-completions`` that keeps finish reasons and token counts and checks BOS.

    Requests are sent longest first, or, ``backwards``, shortest first.
    """

    def __init__(
        self,
        window: int,
        *,
        backwards: bool = False,
        on_answer: Callable[[int, int], None] = lambda done, total: None,
        **arguments: Any,
    ) -> None:
        super().__init__(
            tokenizer_backend="huggingface",
            tokenized_requests=True,
            max_length=_NO_LIMIT,
            **arguments,
        )
        self._window = window
        self._in_windows = False
        self._backwards = backwards
        self._on_answer = on_answer
        self.bos = Bos.of(self.tokenizer)
        self.chat = False
        """Whether prompts are rendered chats."""

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
        body: dict[str, Any] = super()._create_payload(messages, **settings)
        return body

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

        Raises:
            EngineError: a request failed; it is named by its task.
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
        count = 0
        async with ClientSession(connector=connector, timeout=timeout) as session:

            async def ask(index: int) -> None:
                nonlocal count
                attempts = AsyncRetrying(
                    stop=stop_after_attempt(self.max_retries),
                    wait=wait_exponential(multiplier=0.5, min=1, max=10),
                    reraise=True,
                )
                request = requests[index]
                try:
                    found: list[Answer] = await attempts(
                        self.amodel_call,
                        session=session,
                        sem=slots,
                        messages=[prompts[index]],
                        gen_kwargs=request.args[1],
                    )
                except FAILED as error:
                    raise request_failed(str(request.task_name), error) from error
                (answer,) = found
                answer.bos = self.bos.begins(prompts[index])
                self.cache_hook.add_partial(_GENERATION, request.args, answer)
                answers[index], count = answer, count + 1
                self._on_answer(count, len(requests))

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
        keys = {window: _key(window) for windows in texts for window in windows}
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

    def results_of(self, request: Instance) -> list[Answer | LogProb]:
        """What the engine answered to a request, once lm-eval has its result: one a window.

        Call it while ``answered`` keeps the answers.
        """
        if request.request_type == "loglikelihood_rolling":
            kept = self.cache_hook.dbdict
            windows = self._windows(*request.args)
            return [kept[_key(window)][0] for window in windows] * len(request.resps)
        if request.request_type == _GENERATION:
            return list(request.resps)
        return [value for value, _ in request.resps]

    @staticmethod
    def parse_generations(outputs: Any, **_: Any) -> list[Answer]:
        """The texts of a response, each with its finish reason and token counts."""
        try:
            return [_answer(choice, usage) for choice, usage in _choices(outputs)]
        except _MALFORMED as error:
            raise _malformed(outputs) from error

    def parse_logprobs(  # in lm-eval it is static
        self,
        outputs: Any,
        tokens: list[list[int]] | None = None,
        ctxlens: list[int] | None = None,
        **_: Any,
    ) -> list[tuple[LogProb, bool]]:
        """Log-likelihoods of the continuations in a response."""
        tokens = tokens or []
        try:
            said = [
                (len(choice["logprobs"]["token_logprobs"]), usage)
                for choice, usage in _choices(outputs)
            ]
            pairs = LocalCompletionsAPI.parse_logprobs(outputs, tokens=tokens, ctxlens=ctxlens)
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
            result.bos = None if self._in_windows else self.bos.begins(sent)
            results.append((result, greedy))
        return results


def _malformed(outputs: Any) -> EngineError:
    return EngineError(
        f"the engine's answer is malformed: {outputs!r:.300}",
        mend="see the engine's log, and whether this version of it still speaks /v1/completions",
    )


def request_failed(task: str, error: BaseException) -> EngineError:
    """The error of a request that was sent as often as it may be."""
    return EngineError(
        f"a request of '{task}' failed: {str(error) or type(error).__name__}",
        mend="see the evaluation's log and the engine's log; answers that came are kept",
    )


def _key(window: _Window) -> str:
    return str(hash_args(_LIKELIHOOD, window))


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


@contextmanager
def answered(model: ServedModel, path: Path, chat: bool) -> Iterator[CachingLM]:
    """``model`` with its answers kept in ``path`` as they come, and not asked for again.

    A file serves one model and one way to begin prompts, which are rendered chats or none are:
    lm-eval leaves both out of its keys.
    """
    model.chat = chat
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
    on_answer: Callable[[int, int], None] = lambda done, total: None,
) -> ServedModel:
    """The model behind ``base_url``, which ends in ``/v1``; ``window`` is in tokens.

    ``on_answer`` is called with how many of a stream's answers are there, and how many it asks.
    """
    return ServedModel(
        backwards=backwards,
        on_answer=on_answer,
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
