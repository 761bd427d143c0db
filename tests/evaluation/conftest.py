"""A tiny tokenizer and a completions server that answers by rule."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Config, Evaluation, Gate, ModelSource, Release, Serve, Suite, Variant
from qpipe.evaluation import plan_suites, run_suites
from qpipe.paths import Workspace

Run = Callable[..., dict[str, Any]]

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_tokenizer(
    folder: Path, *, before: tuple[str, ...] = ("<s>",), template: str | None = TEMPLATE
) -> Path:
    """One token a byte, after the special tokens ``before``; ``<s>`` is the BOS."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<s>", "</s>", *letters, "<mask>"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    if before:
        special = [(token, vocabulary[token]) for token in before]
        single = " ".join([*before, "$A"])
        core.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<mask>"]})
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One token a byte, BOS added, with a chat template that brings its own BOS."""
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def usage(prompt: list[int], answer: int) -> dict[str, Any]:
    """As vLLM words it; the first token of each prompt comes from the prefix cache."""
    return {
        "prompt_tokens": len(prompt),
        "completion_tokens": answer,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


class FakeEngine:
    """``/v1/completions`` over the byte tokenizer.

    ``answer`` maps a prompt to (text, finish reason); ``likes`` says which echoed texts are likely.
    ``spoil`` may change a response or give other bytes in its place; ``None`` hangs up.
    """

    def __init__(self, tokenizer_dir: Path) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
        self.answer: Callable[[str], tuple[str, str]] = lambda prompt: ("?", "stop")
        self.likes: Callable[[str], bool] = lambda text: False
        self.fails: Callable[[str], bool] = lambda text: False
        self.spoil: Callable[[str, dict[str, Any]], dict[str, Any] | bytes | None]
        self.spoil = lambda prompt, reply: reply
        self.slow_s = 0.0
        self.requests: list[dict[str, Any]] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                engine.requests.append(body)
                time.sleep(engine.slow_s)
                status, reply = engine.reply(body)
                spoilt = engine.spoil(engine.text(body), reply)
                if spoilt is None:
                    self.close_connection = True
                    return
                data = spoilt if isinstance(spoilt, bytes) else json.dumps(spoilt).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def text(self, body: dict[str, Any]) -> str:
        """The prompt of a request."""
        (ids,) = body["prompt"]
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def reply(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        (ids,) = body["prompt"]
        text = self.text(body)
        if self.fails(text):
            return 400, {"error": "the prompt is too long"}
        if body.get("echo"):
            value = -0.1 if self.likes(text) else -1.0
            # One token is generated beyond those that are echoed.
            values = [None] + [value] * len(ids)
            tops = [None] + [{"x": value}] * len(ids)
            choice = {
                "index": 0,
                "text": text,
                "finish_reason": "length",
                "logprobs": {"token_logprobs": values, "top_logprobs": tops},
            }
            return 200, {"choices": [choice], "usage": usage(ids, 1)}
        answer, reason = self.answer(text)
        choice = {"index": 0, "text": answer, "finish_reason": reason}
        return 200, {"choices": [choice], "usage": usage(ids, len(answer))}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def engine(tokenizer_dir: Path) -> Iterator[FakeEngine]:
    fake = FakeEngine(tokenizer_dir)
    yield fake
    fake.close()


def make_config(
    root: Path, suites: dict[str, Suite], max_model_len: int | None = None, **evaluation: Any
) -> Config:
    release = Release(
        name="test",
        model=ModelSource(source="path:model"),
        serve=Serve(max_model_len=max_model_len),
        variants={"some": Variant(scheme="any")},
        evaluation=Evaluation(suites=list(suites), **{"concurrency": 4, **evaluation}),
        gate=Gate(),
    )
    files = {name: root / f"{name}.yaml" for name in suites}
    return Config(Workspace(root), release, {}, suites, files)


@pytest.fixture
def run(tmp_path: Path, engine: FakeEngine, tokenizer_dir: Path) -> Run:
    """Plans and runs a config's suites against the fake engine."""

    def run(config: Config, checkpoint: str = "c0", **more: Any) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "base_url": engine.base_url,
            "model_id": "m",
            "tokenizer_dir": tokenizer_dir,
            "checkpoint_hash": checkpoint,
            "context": {"engine": "fake"},
            "out_dir": tmp_path / "out" / "eval" / "bf16",
        }
        arguments |= more
        plan = plan_suites(config, "bf16", arguments["tokenizer_dir"])
        return run_suites(config, "bf16", plan, **arguments)

    return run
