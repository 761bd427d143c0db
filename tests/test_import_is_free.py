from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "vllm", "llmcompressor", "pandas", "mlflow", "transformers")
# A main that exits would end the interpreter before it can be asked.
HELP = "import sys; sys.argv = ['qpipe', '--help']\ntry: main()\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    "code",
    [
        "import qpipe",
        "import qpipe.config",
        "import qpipe.evalset",
        f"from qpipe.cli import main\n{HELP}",
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    ask = f"import sys\nprint(*(set({HEAVY}) & set(sys.modules)), file=sys.stderr)"
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert answer.stderr.strip() == ""
