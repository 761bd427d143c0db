from __future__ import annotations

import http.server
import json
import os
import pwd
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from qpipe.errors import EnvError
from qpipe.evaluation import Row, _sandbox, score
from qpipe.evaluation._sandbox import passes, require_sandbox

TESTS = "assert f(2) == 4"
GOOD = "def f(x):\n    return 2 * x\n"
BAD = "def f(x):\n    return 0\n"
HOME = pwd.getpwuid(os.getuid()).pw_dir


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    try:
        require_sandbox()
    except EnvError as error:
        pytest.skip(error.message)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_sandbox.LIMITS, "cpu_s", 1)
    monkeypatch.setitem(_sandbox.LIMITS, "wall_s", 3)


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process and no folder outlives an answer."""
    folder = tmp_path / "sandboxes"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    words = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    assert [found for found in words if str(_sandbox._JAIL) in (found or ())] == []
    assert list(folder.iterdir()) == []


def test_right_and_wrong_code() -> None:
    assert passes(GOOD, TESTS)
    assert not passes(BAD, TESTS)
    assert not passes("def f(x):\n    return 2 *", TESTS)
    assert not passes("", TESTS)


def test_the_standard_library_and_the_temporary_folder_are_there() -> None:
    code = (
        "import collections, decimal, hashlib, json, math, random, re, tempfile, threading\n"
        "def f(x):\n"
        "    with tempfile.NamedTemporaryFile('w+') as file:\n"
        "        file.write('4'); file.seek(0)\n"
        "        worker = threading.Thread(target=math.sqrt, args=(x,))\n"
        "        worker.start(); worker.join()\n"
        "        return int(file.read())\n"
    )
    assert passes(code, TESTS)


def test_a_main_block_is_not_run_and_input_is_empty() -> None:
    assert passes(GOOD + "if __name__ == '__main__':\n    print(f(int(input())))\n", TESTS)


def test_the_order_of_a_set_is_always_the_same() -> None:
    code = f"def f(x):\n    return list({{'a', 'b', 'c', 'd', 'e'}}) == {_ordered()!r} and 4"
    assert passes(code, TESTS)


def _ordered() -> list[str]:
    ask = "import json; print(json.dumps(list({'a', 'b', 'c', 'd', 'e'})))"
    answer = subprocess.run(
        [sys.executable, "-c", ask], env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True
    )
    found: list[str] = json.loads(answer.stdout)
    return found


# Each would make f right if what it tries did work.
FAKES = {
    "leaves before the asserts": "import os; os._exit(0)",
    "leaves politely": "raise SystemExit(0)",
    "prints a success": f"print('ready'); print('passed')\n{BAD}",
    "writes a success to every file": (
        "import os\n"
        "for n in range(3, 32):\n"
        "    try: os.write(n, b'ready\\nok')\n"
        f"    except OSError: pass\n{BAD}"
    ),
    "catches the error": f"try:\n    assert False\nexcept AssertionError:\n    pass\n{BAD}",
    "waits for the tests to be its block": f"{BAD}try:\n",
    "takes the tests into a string": f'{BAD}"""',
    "hides the error's class": f"import builtins\nbuiltins.AssertionError = SystemExit\n{BAD}",
    "replaces what runs the tests": (
        "import builtins, os, sys\n"
        "builtins.exec = builtins.compile = sys.settrace = lambda *_: None\n" + BAD
    ),
    "goes on in a child": f"import os\nif os.fork(): os._exit(0)\n{BAD}",
    "leaves in an exit handler": f"import atexit, os\natexit.register(os._exit, 0)\n{BAD}",
    "jumps over the asserts": (
        "import sys\n"
        "def trace(frame, event, _):\n"
        "    if event == 'line' and frame.f_code.co_filename == 'tests': frame.f_lineno += 1\n"
        f"    return trace\nsys.settrace(trace)\n{BAD}"
    ),
    "leaves in the function": "import os\ndef f(x):\n    os._exit(0)\n",
}


@pytest.mark.parametrize("code", FAKES.values(), ids=FAKES)
def test_a_fake_success_is_none(code: str) -> None:
    assert not passes(code, TESTS + "\nassert f(3) == 6")


# Each gives 4, which is right, if what it tries does work.
ESCAPES = {
    "reads the users": "open('/etc/passwd').read()",
    "reads processes": "open('/proc/self/environ').read()",
    "lists the root": "any(n in ('etc', 'home', 'proc', 'var') for n in __import__('os').listdir('/')) or 1/0",
    "writes to the root": "open('/x', 'w')",
    "writes beside the library": "open(__import__('os').__file__ + 'x', 'w')",
    "makes a folder": "__import__('os').mkdir('/usr/x')",
    "starts a shell": "__import__('subprocess').run(['/bin/sh', '-c', 'true'], check=True)",
    "resolves a name": "__import__('socket').getaddrinfo('example.org', 80)",
    "opens a raw socket": "__import__('socket').socket(17, 3)",
    "mounts": "c = __import__('ctypes').CDLL(None); c.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0 or 1/0",
    "makes itself mighty": "c = __import__('ctypes').CDLL(None); c.unshare(0x10000000) == 0 or 1/0",
    "changes its root": "__import__('os').chroot('/tmp')",
    "becomes root": "__import__('os').setuid(0); __import__('os').getuid() == 0 or 1/0",
    "raises its limits": "r = __import__('resource'); r.setrlimit(r.RLIMIT_NPROC, (99, 99))",
    "writes a large file": "open('large', 'wb').write(bytes(5 << 20))",
    "fills the folder": "[open(str(n), 'wb').write(bytes(3 << 20)) for n in range(9)]",
    "takes memory": "bytearray(600 << 20)",
    "kills from outside": "__import__('os').kill(PID, 0)",
    "reads what the parent knows": "__import__('os').environ['QPIPE_SECRET']",
}


@pytest.mark.parametrize("attempt", ESCAPES.values(), ids=ESCAPES)
def test_an_escape_fails(attempt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QPIPE_SECRET", "1")
    attempt = attempt.replace("PID", str(os.getpid()))
    assert not passes(f"def f(x):\n    {attempt}\n    return 4\n", TESTS)


def test_an_escape_would_be_seen() -> None:
    assert passes("def f(x):\n    open('small', 'wb').write(bytes(1 << 20))\n    return 4\n", TESTS)


def test_the_home_folder_is_not_there(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("4")
    for path in (secret, Path(__file__), Path(HOME)):
        read = (
            f"__import__('os').listdir({str(path)!r})" if path.is_dir() else f"open({str(path)!r})"
        )
        code = f"def f(x):\n    {read}\n    return 4\n"
        # A home may be there as the way to Python's library, but with nothing else in it.
        if path.is_dir():
            library = sys.base_prefix.startswith(f"{path}/")
            code = f"def f(x):\n    return 4 if len({read}) > {int(library)} else 0\n"
        assert not passes(code, TESTS), path


def test_a_socket_reaches_nobody() -> None:
    class Seen(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            calls.append(self.path)

    calls: list[str] = []
    with http.server.HTTPServer(("127.0.0.1", 0), Seen) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = (
            "import socket\n"
            "def f(x):\n"
            f"    link = socket.create_connection(('127.0.0.1', {server.server_port}), 1)\n"
            "    link.send(b'GET / HTTP/1.0\\r\\n\\r\\n')\n"
            "    return 4\n"
        )
        assert not passes(code, TESTS)
        server.shutdown()
    assert calls == []


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import os\nwhile True: os.fork()",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "hog = []\nwhile True: hog.append(bytearray(1 << 20))",
        "import os\nos.setsid()\nos.fork()\nimport time; time.sleep(60)",
        "import signal, time\n"
        "for n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "time.sleep(60)",
        "import os\nwhile True:\n    for n in range(3, 9):\n        try: os.write(n, b'x' * 65536)\n        except OSError: pass",
    ],
    ids=[
        "loop",
        "sleep",
        "fork bomb",
        "stubborn fork bomb",
        "memory",
        "session",
        "signals",
        "flood",
    ],
)
def test_what_does_not_end_is_ended(code: str) -> None:
    started = time.monotonic()
    assert not passes(f"{code}\n{GOOD}", TESTS)
    assert time.monotonic() - started < _sandbox.LIMITS["wall_s"] + _sandbox._GRACE_S + 2


def test_forks_are_counted() -> None:
    code = "import os, time\ndef f(x):\n    for _ in range(8):\n        if os.fork() == 0: time.sleep(9)\n    return 4\n"
    assert not passes(code, TESTS)


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef f(x):\n    return 2 * x\n```\nIt doubles.",
        "Sure!\n\n```py\ndef f(x):\n    return 2 * x\n```\n```python\nbroken(\n```",
        "```\ndef f(x):\n    return 2 * x\n```",
        "```python\ndef f(x):\n    return 2 * x\n",
        GOOD,
        "def f(x):\n    return 2 * x\n```\nExplanation, which is no code",
    ],
)
def test_code_is_found_in_an_answer(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ALLOW_CODE_EVAL", "1")
    assert score(question(), answer) == 1


def test_an_answer_goes_on_from_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ALLOW_CODE_EVAL", "1")
    row = question(prefix="def f(x):\n")
    assert score(row, "    return 2 * x") == 1
    assert score(row, f"```python\n{GOOD}```") == 1
    assert score(row, "return") == 0


def test_code_is_not_run_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ALLOW_CODE_EVAL", raising=False)
    with pytest.raises(EnvError, match="HF_ALLOW_CODE_EVAL=1"):
        score(question(), GOOD)


def question(**more: str) -> Row:
    base = {"id": "x", "category": "code", "prompt": "p", "level": 1, "scorer": "code_tests"}
    return Row.model_validate({**base, "reference": TESTS, **more})


@pytest.fixture
def fresh() -> Iterator[Callable[[], None]]:
    _sandbox._way.cache_clear()
    yield _sandbox._way.cache_clear
    _sandbox._way.cache_clear()


@pytest.mark.usefixtures("fresh")
class TestNoSandbox:
    def test_not_on_other_systems(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_sandbox.sys, "platform", "darwin")
        with pytest.raises(EnvError, match="needs Linux, not darwin"):
            passes(GOOD, TESTS)

    def test_not_without_unshare(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(EnvError, match=r"no `unshare` \(util-linux\)") as caught:
            require_sandbox()
        assert "code_tests" in str(caught.value.mend)

    def test_not_where_namespaces_are_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        fake = tmp_path / "unshare"
        fake.write_text(
            "#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n"
        )
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        with pytest.raises(EnvError, match="Operation not permitted"):
            require_sandbox()

    def test_not_where_it_does_not_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # A sandbox without limits on processes, as a user namespace of root's is.
        monkeypatch.setitem(_sandbox.LIMITS, "processes", 100_000)
        with pytest.raises(EnvError, match="got out"):
            require_sandbox()
