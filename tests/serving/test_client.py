from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from qpipe.errors import EngineError
from qpipe.serving import Client, Tokens

METRICS = """# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{model="m",engine="0"} 30.0
vllm:prompt_tokens_total{model="m",engine="1"} 12.0
# TYPE vllm:prompt_tokens_cached counter
vllm:prompt_tokens_cached_total{model="m"} 10.0
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{model="m"} 25.0
# TYPE vllm:request_success counter
vllm:request_success_total{model="m",finished_reason="stop"} 3.0
vllm:request_success_total{model="m",finished_reason="length"} 2.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{kv_cache_size_tokens="93184"} 1.0
"""

Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], Client]]:
    made: list[Client] = []

    def serve(answer: Answer) -> Client:
        client = Client("http://127.0.0.1:1", "m")
        client._http.close()
        client._http = httpx.Client(base_url=client.url, transport=httpx.MockTransport(answer))
        made.append(client)
        return client

    yield serve
    for client in made:
        client._http.close()


def replying(rows: list[Any], asked: list[dict[str, Any]] | None = None) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        if asked is not None:
            asked.append(json.loads(request.content))
        choice = {
            "text": " hi",
            "token_ids": [8, 9],
            "finish_reason": "stop",
        }
        # As the engine writes it: Python's JSON, which has NaN and Infinity.
        body = json.dumps({"choices": [choice], "prompt_logprobs": rows})
        return httpx.Response(200, content=body.encode())

    return answer


def row(**logprobs: float) -> dict[str, Any]:
    return {key[1:]: {"logprob": value, "rank": 1} for key, value in logprobs.items()}


def test_prompt_logprobs(serve: Callable[[Answer], Client]) -> None:
    asked: list[dict[str, Any]] = []
    # Token 9 came though it is not among the two likeliest, so it is listed besides.
    rows = [None, row(_5=-2.0, _4=-0.5), row(_7=-1.0, _6=-0.7, _9=-8.0)]
    found = serve(replying(rows, asked)).prompt_logprobs([3, 5, 9], top_k=2)
    assert found.ids == [[4, 5], [6, 7]]
    assert found.logprobs == [[-0.5, -2.0], [-0.7, -1.0]]
    assert found.actual == [-2.0, -8.0]
    (body,) = asked
    assert body["model"] == "m"
    assert body["token_ids"] == [3, 5, 9]
    sampling = body["sampling_params"]
    assert (sampling["prompt_logprobs"], sampling["temperature"]) == (2, 0)
    assert sampling["detokenize"] is False


def test_nan_logprobs_are_refused(serve: Callable[[Answer], Client]) -> None:
    client = serve(replying([None, row(_5=math.nan, _4=-0.5)]))
    with pytest.raises(EngineError, match="NaN logprobs"):
        client.prompt_logprobs([3, 5], top_k=2)


def test_completion(serve: Callable[[Answer], Client]) -> None:
    assert serve(replying([])).complete([1, 2], max_tokens=4) == [8, 9]


def test_refusal_carries_the_servers_words(serve: Callable[[Answer], Client]) -> None:
    client = serve(lambda _: httpx.Response(400, text="prompt_logprobs must be at most 20"))
    with pytest.raises(EngineError, match=r"refused /inference/v1/generate \(400\).*at most 20"):
        client.prompt_logprobs([1, 2], top_k=64)
    assert not client.healthy()


def test_dead_server(serve: Callable[[Answer], Client]) -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    client = serve(gone)
    assert not client.healthy()
    with pytest.raises(EngineError, match="does not answer /version") as caught:
        client.version()
    assert "log" in str(caught.value.mend)


def test_metrics(serve: Callable[[Answer], Client]) -> None:
    client = serve(lambda _: httpx.Response(200, text=METRICS))
    assert client.healthy()
    assert [value for _, value in client.metrics()["vllm:prompt_tokens_total"]] == [30, 12]
    ((labels, _),) = client.metrics()["vllm:cache_config_info"]
    assert labels == {"kv_cache_size_tokens": "93184"}


def test_tokens_by_the_engines_counters(serve: Callable[[Answer], Client]) -> None:
    tokens = serve(lambda _: httpx.Response(200, text=METRICS)).tokens()
    # 42 prompt tokens of which 10 were cached; each of five answers has one token from prefill.
    assert tokens == Tokens(prefill_tokens=32, cached_tokens=10, decode_tokens=20, requests=5)
    assert tokens.since(Tokens(30, 0, 20, 4)) == {
        "prefill_tokens": 2,
        "cached_tokens": 10,
        "decode_tokens": 0,
        "requests": 1,
    }


def test_an_engine_that_does_not_count(serve: Callable[[Answer], Client]) -> None:
    client = serve(lambda _: httpx.Response(200, text=METRICS.replace("_cached", "_kept")))
    with pytest.raises(EngineError, match="does not count prompt_tokens_cached"):
        client.tokens()


def test_decoded_distributions(serve: Callable[[Answer], Client]) -> None:
    asked: list[dict[str, Any]] = []
    top = [{"token_id:5": -2.0, "token_id:8": -0.1}, {"token_id:9": -0.5, "token_id:8": -1.0}]

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        choice = {"text": " hi", "token_ids": [8, 9], "finish_reason": "length"}
        choice["logprobs"] = {"top_logprobs": top}
        return httpx.Response(200, json={"choices": [choice]})

    tokens, found = serve(answer).decode([3, 4], max_tokens=2, top_k=2)
    assert tokens == [8, 9]
    assert found.ids == [[8, 5], [9, 8]]
    assert found.logprobs == [[-0.1, -2.0], [-0.5, -1.0]]
    assert found.actual == [-0.1, -0.5]
    (body,) = asked
    assert (body["prompt"], body["max_tokens"], body["logprobs"]) == ([3, 4], 2, 2)
    assert body["ignore_eos"] and body["temperature"] == 0 and body["return_tokens_as_token_ids"]


def test_control_calls(serve: Callable[[Answer], Client]) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path))
        return httpx.Response(200, json={"results": [[1, 2]], "version": "0.32.0"})

    client = serve(answer)
    assert client.call_workers("look") == [[1, 2]]
    assert client.version() == "0.32.0"
    client.reset_prefix_cache()
    wanted = [("POST", "/collective_rpc"), ("GET", "/version"), ("POST", "/reset_prefix_cache")]
    assert asked == wanted
    assert client.base_url == "http://127.0.0.1:1/v1"


def sample(client: Client) -> Any:
    return client.sample([1, 2], 4, 2, temperature=0.7, stop=[])


def prompt_logprobs(client: Client) -> Any:
    return client.prompt_logprobs([3, 5], 2)


def complete(client: Client) -> Any:
    return client.complete([1, 2], 4)


SOUND = {"text": "a", "finish_reason": "length", "token_ids": [1]}


@pytest.mark.parametrize(
    ("ask", "choices", "says"),
    [
        *((ask, [], "malformed") for ask in (complete, prompt_logprobs, sample)),
        *((ask, [{**SOUND, "finish_reason": "abort"}] * count, "is 'abort'")
          for ask, count in ((complete, 1), (prompt_logprobs, 1), (sample, 2))),
        (complete, [{**SOUND, "token_ids": None}], "malformed"),
        (sample, [SOUND], "1 of 2 choices"),
        (sample, [SOUND, {**SOUND, "text": None}], "malformed"),
    ],
)  # fmt: skip
def test_no_answer_is_an_error(
    serve: Callable[[Answer], Client], ask: Callable[[Client], Any], choices: Any, says: str
) -> None:
    body = {"choices": choices, "prompt_logprobs": [None, row(_5=-1.0)]}
    client = serve(lambda _: httpx.Response(200, json=body))
    with pytest.raises(EngineError, match=says) as caught:
        ask(client)
    assert caught.value.mend


@pytest.mark.parametrize("rows", [None, [None], [None, None], [None, row(_4=-1.0)]])
def test_logprobs_of_other_tokens_than_were_asked(
    serve: Callable[[Answer], Client], rows: Any
) -> None:
    with pytest.raises(EngineError, match="malformed"):
        serve(replying(rows)).prompt_logprobs([3, 5], top_k=2)


def test_an_answer_that_is_no_json(serve: Callable[[Answer], Client]) -> None:
    client = serve(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(EngineError, match="malformed"):
        client.complete([1], 2)


def test_sampled_completions(serve: Callable[[Answer], Client]) -> None:
    client = serve(lambda _: httpx.Response(200, json={"choices": [SOUND, {**SOUND, "text": ""}]}))
    assert [(each.text, each.finish_reason) for each in sample(client)] == [
        ("a", "length"),
        ("", "length"),
    ]
