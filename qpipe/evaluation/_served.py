"""lm-eval's model for a served variant. Imports lm_eval: import this module inside functions."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
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
from qpipe.evaluation._answers import Answer, LogProb, generated, likelihoods
from qpipe.evaluation._prompts import Bos, render

__all__ = [
    "GENERATION",
    "ServedModel",
    "answered",
    "is_sampled",
    "served_model",
]

GENERATION = "generate_until"
"""lm-eval's kind of requests whose answers are generated."""

# How a request fails. Not every OSError: a full disk is no failed request.
_FAILED = (ClientError, RequestException, JSONDecodeError, TimeoutError, ConnectionError)

# lm-eval cuts longer prompts on the left without a word; the engine refuses them with one.
_NO_LIMIT = 1 << 30
_LIKELIHOOD = "loglikelihood"
_CHUNK = 256  # prompts that are tokenized together
_ATTEMPTS = 3
_TIMEOUT_S = 600
# Of requests that fail together lm-eval awaits one; what becomes of the others is no news.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)


_Window = tuple[tuple[int, ...], tuple[int, ...]]  # tokens given, tokens scored


@register_model("qpipe-completions")
class ServedModel(LocalCompletionsAPI):  # type: ignore[misc]
    """``local-completions`` that keeps finish reasons and token counts and checks BOS.

    Requests are sent longest first, or, ``backwards``, shortest first.
    """

    def __init__(
        self,
        window: int,
        *,
        log: Path,
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
        self._log = log
        self.bos = Bos.of(self.tokenizer)
        self.chat = False
        """Whether prompts are rendered chats."""

    def tok_encode(self, string: Any, left_truncate_len: int | None = None, **_: Any) -> Any:
        """Token ids with exactly the BOS the tokenizer's own templates give."""
        if isinstance(string, str):
            return self.bos.begin(self._ids([string])[0], self.chat)
        return [self.bos.begin(ids, self.chat) for ids in self._ids(string)]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        """Token ids of the texts alone."""
        encoded = self.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)
        ids: list[list[int]] = encoded.input_ids
        return ids

    def _create_payload(
        self,
        messages: list[list[int]],
        generate: bool = False,
        gen_kwargs: dict[str, Any] | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """The request's body; every prompt passes here on its way to the engine."""
        for prompt in messages:
            if not self._in_windows:  # most begin in the middle of a text
                self.bos.check(prompt, self.chat)
        if gen_kwargs is not None and gen_kwargs.get("do_sample") is False:
            # Some tasks say so beside a temperature, which lm-eval's API models would take.
            gen_kwargs["temperature"] = 0
        body: dict[str, Any] = super()._create_payload(
            messages, generate=generate, gen_kwargs=gen_kwargs, **settings
        )
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
            EngineError: a request failed.
            InvalidMeasurement: a prompt cannot be trusted, or does not fit the context.
        """
        prompts: list[array[int]] = []  # a list takes ten times the memory
        for start in range(0, len(requests), _CHUNK):
            part = requests[start : start + _CHUNK]
            texts = self._ids([request.args[0] for request in part])
            for request, ids in zip(part, texts, strict=True):
                with self.naming(str(request.task_name)):
                    prompt = self.bos.begin(ids, self.chat)
                    self._check_fits(len(prompt), int(request.args[1].get("max_gen_toks", 1)))
                prompts.append(array("I", prompt))
        order = sorted(
            range(len(requests)),
            key=lambda index: -len(requests[index].args[0]),
            reverse=self._backwards,
        )
        return asyncio.run(self._answers(requests, prompts, order))

    async def _answers(
        self, requests: list[Instance], prompts: Sequence[array[int]], order: Sequence[int]
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
                request, prompt = requests[index], prompts[index].tolist()
                with self.naming(str(request.task_name)):
                    found: list[Answer] = await attempts(
                        self.amodel_call,
                        session=session,
                        sem=slots,
                        messages=[prompt],
                        gen_kwargs=request.args[1],
                    )
                (answer,) = found
                answer.bos = self.bos.begins(prompt)
                self.cache_hook.add_partial(GENERATION, request.args, answer)
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

    def answers_to(self, request: Instance) -> dict[str, Answer | LogProb]:
        """What the engine answered to a request, by what it was asked; a text has many windows.

        Call it when lm-eval has the result, while ``answered`` keeps the answers.
        """
        if request.request_type == "loglikelihood_rolling":
            keys = map(_key, self._windows(*request.args))
            return {key: self.cache_hook.dbdict[key][0] for key in keys}
        key = hash_args(request.request_type, request.args)
        if request.request_type != GENERATION:
            return {key: request.resps[0][0]}
        if is_sampled(request):  # each is another
            asked = f"{key} of {request.task_name}, {request.doc_id}, {request.idx}"
            return {f"{asked}, {number}": answer for number, answer in enumerate(request.resps)}
        return {key: request.resps[0]}

    @contextmanager
    def naming(self, task: str) -> Iterator[None]:
        """Errors of requests name the task.

        Raises:
            EngineError: a request failed.
            InvalidMeasurement: a prompt cannot be trusted, or does not fit the context.
        """
        try:
            yield
        except _FAILED as error:
            raise EngineError(
                f"a request of '{task}' failed: {str(error) or type(error).__name__}",
                mend=f"see {self._log} and the engine's log; answers that came are kept",
            ) from error
        except (EngineError, InvalidMeasurement) as error:
            if f"'{task}'" in error.message:
                raise
            raise type(error)(f"'{task}': {error.message}", error.mend) from error

    @staticmethod
    def parse_generations(outputs: Any, **_: Any) -> list[Answer]:
        """The texts of a response, each with its finish reason and token counts."""
        return generated(outputs)

    def parse_logprobs(  # in lm-eval it is static
        self,
        outputs: Any,
        tokens: list[list[int]] | None = None,
        ctxlens: list[int] | None = None,
        **_: Any,
    ) -> list[tuple[LogProb, bool]]:
        """Log-likelihoods of the continuations in a response."""
        pairs = likelihoods(outputs, tokens or [], ctxlens or [])
        for (value, _greedy), sent in zip(pairs, tokens or [], strict=True):
            value.bos = None if self._in_windows else self.bos.begins(sent)
        return pairs


def is_sampled(request: Instance) -> bool:
    """Whether a request that is generated is sampled: lm-eval keeps none of its answers."""
    return bool(request.args[1].get("do_sample", False))


def _key(window: _Window) -> str:
    return str(hash_args(_LIKELIHOOD, window))


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
    log: Path,
    backwards: bool = False,
    trust_remote_code: bool = False,
    on_answer: Callable[[int, int], None] = lambda done, total: None,
) -> ServedModel:
    """The model behind ``base_url``, which ends in ``/v1``; ``window`` is in tokens.

    Errors name ``log``, where lm-eval's messages go. ``on_answer`` is called with how many of a
    stream's answers are there, and how many it asks.
    """
    return ServedModel(
        log=log,
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
