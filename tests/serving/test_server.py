from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from qpipe.config import Serve
from qpipe.errors import EngineError, EnvError
from qpipe.paths import Workspace
from qpipe.schemes import mode_of
from qpipe.serving import Plan, start
from tests.conftest import FakeEnvironment
from tests.workspace_fixture import AMX, silent

# Stands in for the environment's interpreter: serves as the engine does.
ENGINE = """
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        served = [{"id": sys.argv[sys.argv.index("--served-model-name") + 1]}]
        data = json.dumps({"version": "0.32.0", "data": served}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

print("INFO Using CPUWNA16LinearKernel for CompressedTensorsWNA16", flush=True)
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
# It tells of the places where it rounded.
ROUNDS = ENGINE.replace(
    "    def do_GET(self):",
    """    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"token_ids": [1], "finish_reason": "length"}
        rounded = {"kv": {"0": 1}, "activations": {"q": 1}}
        data = json.dumps({"choices": [choice], "results": [rounded]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):""",
)
STRANGER = ENGINE.replace('sys.argv[sys.argv.index("--served-model-name") + 1]', '"stranger"')
DIES = "print('torch: out of memory')\nraise SystemExit(1)\n"
HANGS = "import time\nprint('still loading', flush=True)\ntime.sleep(60)\n"


def plan(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "variant": "gptq",
        "mode": mode_of(None, AMX),
        "checkpoint": Path("checkpoint"),
        "checkpoint_hash": "c" * 64,
        "tokenizer": Path("model"),
        "serve": Serve(start_timeout_s=30),
        "env": {},
    }
    return Plan(**{**settings, **changes})


def test_healthy_server_ends_with_the_block(
    workspace: Workspace, make_environment: FakeEnvironment
) -> None:
    make_environment("serve", ENGINE)
    said: list[str] = []
    with start(plan(kernels=("CPUWNA16LinearKernel",)), workspace, said.append) as server:
        assert server.client.healthy()
        assert server.engine_version == "0.32.0"
        assert server.kernels == ("CPUWNA16LinearKernel",)
        assert server.resident_gib() > 0
        record = server.provenance(AMX)
        assert record["engine_version"] == "0.32.0"
        assert record["mode"] == "native"
        assert record["checkpoint_hash"] == "c" * 64
    assert not server.client.url.endswith(":0")
    assert not psutil.pid_exists(server.pid)
    assert "starting the engine (native" in said[0]


def test_the_first_exception_is_the_cause(
    workspace: Workspace, make_environment: FakeEnvironment
) -> None:
    lines = [
        "(EngineCore pid=7) ERROR 11-30 09:42:38 [core.py:9] ValueError: block size 7 is odd",
        *["a consequence"] * 50,
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    make_environment("serve", f"print({chr(10).join(lines)!r})\nraise SystemExit(1)\n")
    with (
        pytest.raises(EngineError, match=r"exit code 1 \(ValueError: block size 7 is odd\)"),
        start(plan(), workspace, silent),
    ):
        pass


def test_stranger_on_the_port(workspace: Workspace, make_environment: FakeEnvironment) -> None:
    make_environment("serve", STRANGER)
    with (
        pytest.raises(EngineError, match="answers with stranger, not with 'gptq'"),
        start(plan(), workspace, silent),
    ):
        pass


def test_server_that_dies(workspace: Workspace, make_environment: FakeEnvironment) -> None:
    make_environment("serve", DIES)
    with (
        pytest.raises(EngineError, match="died with exit code 1") as caught,
        start(plan(), workspace, silent),
    ):
        pass
    assert "torch: out of memory" in str(caught.value)
    assert str(workspace.logs / "serve-gptq.log") in str(caught.value)


def test_server_that_is_never_healthy(
    workspace: Workspace, make_environment: FakeEnvironment
) -> None:
    make_environment("serve", HANGS)
    started = time.monotonic()
    with (
        pytest.raises(EngineError, match="not healthy after 2 s") as caught,
        start(plan(serve=Serve(start_timeout_s=2)), workspace, silent),
    ):
        pass
    assert "still loading" in str(caught.value)
    assert time.monotonic() - started < 20


def test_other_kernel_than_the_schemes(
    workspace: Workspace, make_environment: FakeEnvironment
) -> None:
    make_environment("serve", ENGINE)
    wanted = plan(kernels=("CPUInt8ScaledMMLinearKernel",))
    with (
        pytest.raises(EngineError, match="must run on CPUInt8") as caught,
        start(wanted, workspace, silent),
    ):
        pass
    assert "the engine took CPUWNA16LinearKernel" in str(caught.value)


def test_simulation_must_have_loaded(
    workspace: Workspace, make_environment: FakeEnvironment
) -> None:
    make_environment("serve", ROUNDS)
    with start(plan(simulated={"kv": 1, "activations": 1}), workspace, silent):
        pass
    with (
        pytest.raises(EngineError, match="activations were rounded in 1 of 2 places"),
        start(plan(simulated={"kv": 1, "activations": 2}), workspace, silent),
    ):
        pass


def test_fixed_port_that_is_taken(workspace: Workspace, make_environment: FakeEnvironment) -> None:
    make_environment("serve", HANGS)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        wanted = plan(serve=Serve(port=port))
        with (
            pytest.raises(EnvError, match=f"port {port} is taken"),
            start(wanted, workspace, silent),
        ):
            pass
    assert not (workspace.logs / "serve-gptq.log").exists()


def test_environment_comes_first(workspace: Workspace) -> None:
    with pytest.raises(EnvError, match="qpipe env sync serve"), start(plan(), workspace, silent):
        pass


def test_engine_that_dies_while_it_serves(
    workspace: Workspace, make_environment: FakeEnvironment
) -> None:
    make_environment("serve", ENGINE)
    with (
        pytest.raises(EngineError, match="the engine died") as caught,
        start(plan(), workspace, silent) as server,
    ):
        assert server.alive()
        psutil.Process(server.pid).kill()
        server.wait()
    assert not server.alive()
    assert "Using CPUWNA16LinearKernel" in str(caught.value)


@pytest.mark.parametrize("dies", [True, False])
def test_a_failed_request_tells_of_a_dead_engine(
    workspace: Workspace, make_environment: FakeEnvironment, dies: bool
) -> None:
    make_environment("serve", ENGINE)
    said = r"the engine died \(no answer\)" if dies else "^no answer$"
    with (
        pytest.raises(EngineError, match=said),
        start(plan(), workspace, silent) as server,
    ):
        if dies:
            psutil.Process(server.pid).kill()
        raise EngineError("no answer")
