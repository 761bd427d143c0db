"""What qpipe asks a server, over HTTP."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from qpipe.errors import EngineError

__all__ = ["Client", "Completion", "PromptLogprobs", "Tokens", "require_ended"]

# How an answer ends that the model ended, or the limit of its length.
_ENDS = ("stop", "length")


@dataclass(frozen=True)
class Tokens:
    """What an engine did, as it counted it."""

    prefill_tokens: int
    """Of prompts, computed."""
    cached_tokens: int
    """Of prompts, read from the prefix cache."""
    decode_tokens: int
    """Generated, without each answer's first: that one comes from prefill."""
    requests: int
    """Finished; every sampled answer counts."""

    def since(self, before: Tokens) -> dict[str, int]:
        """What was done since ``before``, by name."""
        theirs = asdict(before)
        return {name: count - theirs[name] for name, count in asdict(self).items()}


@dataclass(frozen=True)
class PromptLogprobs:
    """For each position after the first: the likeliest next tokens and the token that came."""

    ids: list[list[int]]
    """[positions][k]."""
    logprobs: list[list[float]]
    """[positions][k], nats."""
    actual: list[float]
    """[positions], nats: of the token that the text has there."""


@dataclass(frozen=True)
class Completion:
    """One generated text and why it ended."""

    text: str
    finish_reason: str | None


@contextmanager
def _well_formed() -> Iterator[None]:
    """What cannot be read from an answer is the server's fault."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EngineError(
            f"the server's answer is malformed: {error!r}",
            mend="see its log, and whether this version of it still speaks its API",
        ) from error


def require_ended(choice: dict[str, Any]) -> None:
    """Check that an answer came to its end.

    Raises:
        EngineError: the engine broke it off: it would be judged as if the model had said it.
        KeyError: nothing is said of its end.
    """
    if choice["finish_reason"] not in _ENDS:
        raise EngineError(
            f"the engine broke an answer off: its finish_reason is {choice['finish_reason']!r}",
            mend="see the engine's log",
        )


def _text(choice: dict[str, Any]) -> str:
    if not isinstance(choice["text"], str):
        raise TypeError("no text")
    return choice["text"]


class Client:
    """A connection to one server."""

    def __init__(self, url: str, model: str) -> None:
        self.url = url
        self.model = model
        limits = httpx.Limits(max_connections=256)
        self._http = httpx.Client(
            base_url=url, timeout=httpx.Timeout(600, connect=5), limits=limits
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    @property
    def base_url(self) -> str:
        """Of the OpenAI-style API."""
        return f"{self.url}/v1"

    def healthy(self) -> bool:
        """Whether the server accepts requests."""
        try:
            return self._http.get("/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def version(self) -> str:
        """The engine's version."""
        return str(self._get("/version").json()["version"])

    def models(self) -> list[str]:
        """Names of the models that are served."""
        return [model["id"] for model in self._get("/v1/models").json()["data"]]

    def call_workers(self, method: str) -> Any:
        """One method's results on all workers."""
        return self._post("/collective_rpc", {"method": method}).json()["results"]

    def reset_prefix_cache(self) -> None:
        """Forget all prompts: what follows is computed again."""
        self._post("/reset_prefix_cache", {})

    def metrics(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Sample name → [(labels, value)]."""
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(self._get("/metrics").text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return found

    def tokens(self) -> Tokens:
        """The engine's counters.

        Raises:
            EngineError: it does not have them.
        """
        metrics = self.metrics()

        def total(name: str) -> int:
            try:
                return int(sum(value for _, value in metrics[f"vllm:{name}_total"]))
            except KeyError as error:
                raise EngineError(
                    f"the engine does not count {name}",
                    mend="take the engine version of `configs/envs`, and leave its metrics on",
                ) from error

        cached, requests = total("prompt_tokens_cached"), total("request_success")
        return Tokens(
            prefill_tokens=total("prompt_tokens") - cached,
            cached_tokens=cached,
            decode_tokens=total("generation_tokens") - requests,
            requests=requests,
        )

    def complete(self, prompt: list[int], max_tokens: int) -> list[int]:
        """The token ids of a greedy completion."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        with _well_formed():
            (choice,) = self._choices({**body, "return_token_ids": True})
            return [int(token) for token in choice["token_ids"]]

    def sample(
        self,
        prompt: list[int],
        max_tokens: int,
        count: int,
        *,
        temperature: float,
        stop: list[str],
    ) -> list[Completion]:
        """``count`` sampled completions of token ids, drawn by the engine's own seed.

        A seed a request ends the CPU engine (vLLM 0.32) once a prompt is prefilled in chunks.
        """
        body = {"prompt": prompt, "max_tokens": max_tokens, "n": count}
        more = {"temperature": temperature, "stop": stop}
        with _well_formed():
            choices = self._choices({**body, **more}, count)
            return [Completion(_text(each), each["finish_reason"]) for each in choices]

    def decode(
        self, prompt: list[int], max_tokens: int, top_k: int
    ) -> tuple[list[int], PromptLogprobs]:
        """A greedy answer of ``max_tokens`` in all, and the distribution behind each of them."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        more = {"logprobs": top_k, "return_tokens_as_token_ids": True, "return_token_ids": True}
        with _well_formed():
            (choice,) = self._choices({**body, **more})
            tokens = [int(token) for token in choice["token_ids"]]
            rows = [
                {int(key.removeprefix("token_id:")): float(value) for key, value in row.items()}
                for row in choice["logprobs"]["top_logprobs"]
            ]
            return tokens, _likeliest(tokens, rows, top_k)

    def prompt_logprobs(self, prompt: list[int], top_k: int) -> PromptLogprobs:
        """The model's distribution at each position of ``prompt``.

        Asked in ids alone: to spell ``top_k`` tokens a position takes the server's one front end
        four times as long as to list them (65 tokens at each of 2,048 positions).
        """
        sampling = {"max_tokens": 1, "temperature": 0, "prompt_logprobs": top_k}
        body = {"token_ids": prompt, "sampling_params": {**sampling, "detokenize": False}}
        with _well_formed():
            answer = self._generated("/inference/v1/generate", body)
            rows = [
                {int(key): float(value["logprob"]) for key, value in row.items()}
                for row in answer["prompt_logprobs"][1:]
            ]
            return _likeliest(prompt[1:], rows, top_k)

    def _choices(self, body: dict[str, Any], count: int = 1) -> list[dict[str, Any]]:
        """The ``count`` choices of a completion; none was broken off by the server."""
        choices: list[dict[str, Any]] = self._generated("/v1/completions", body, count)["choices"]
        return choices

    def _generated(self, path: str, body: dict[str, Any], count: int = 1) -> dict[str, Any]:
        answer: dict[str, Any] = self._post(path, {"model": self.model, **body}).json()
        if len(answer["choices"]) != count:
            raise ValueError(f"{len(answer['choices'])} of {count} choices")
        for choice in answer["choices"]:
            require_ended(choice)
        return answer

    def _get(self, path: str) -> httpx.Response:
        return self._request("GET", path, None)

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        try:
            response = self._http.request(method, path, json=body)
            response.raise_for_status()
        except httpx.HTTPStatusError as error:
            said = error.response.text[:300]
            message = f"the server refused {path} ({error.response.status_code}): {said}"
            raise EngineError(message, mend="see the engine's log") from error
        except httpx.TransportError as error:
            message = f"the server does not answer {path}: {error!r}"
            raise EngineError(message, mend="it has probably died; see the engine's log") from error
        return response


def _likeliest(tokens: list[int], rows: list[dict[int, float]], top_k: int) -> PromptLogprobs:
    ids, logprobs, actual = [], [], []
    for token, by_id in zip(tokens, rows, strict=True):
        if not all(math.isfinite(value) or value == -math.inf for value in by_id.values()):
            raise EngineError("the server returned NaN logprobs", mend="see its log")
        # The text's own token is listed besides the k likeliest when it is not one of them.
        likeliest = sorted(by_id, key=by_id.__getitem__, reverse=True)[:top_k]
        ids.append(likeliest)
        logprobs.append([by_id[key] for key in likeliest])
        actual.append(by_id[token])
    return PromptLogprobs(ids, logprobs, actual)
