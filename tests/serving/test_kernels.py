from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Serve
from qpipe.errors import EngineError
from qpipe.hardware import Hardware
from qpipe.schemes import mode_of
from qpipe.serving import Plan
from qpipe.serving._kernels import kernels_of, require_kernels
from tests.workspace_fixture import AMX, H100, checked_in_scheme

LOG = """\
INFO Selected CutlassFP8ScaledMMLinearKernel for CompressedTensorsW8A8Fp8
(EngineCore pid=7) INFO Using CPUWNA16LinearKernel for CompressedTensorsWNA16
INFO Selected CPUFp8BlockScaledMMKernel
INFO a Kernel, and aLinearKernels
"""


def plan(scheme: str, hardware: Hardware, **changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "variant": "it",
        "mode": mode_of(checked_in_scheme(scheme), hardware),
        "checkpoint": Path("checkpoint"),
        "checkpoint_hash": "c" * 64,
        "tokenizer": Path("model"),
        "serve": Serve(),
        "env": {},
    }
    return Plan(**{**settings, **changes})


def test_names_are_read_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG)
    assert kernels_of(log) == (
        "CPUFp8BlockScaledMMKernel",
        "CPUWNA16LinearKernel",
        "CutlassFP8ScaledMMLinearKernel",
    )


@pytest.mark.parametrize(
    ("scheme", "kernels", "said"),
    [
        ("fp8-dynamic", ["CutlassFP8ScaledMMLinearKernel"], None),
        ("fp8-dynamic", ["ChannelWiseTorchFP8ScaledMMLinearKernel"], None),
        ("gptq-w4a16", ["MarlinLinearKernel"], None),
        ("nvfp4a16", ["MarlinNvFp4LinearKernel"], None),
        ("nvfp4a16", ["EmulationNvFp4LinearKernel"], "runs on a reference kernel"),
        ("fp8-dynamic", ["MarlinFP8ScaledMMLinearKernel"], "leaves activations at 16 bits"),
    ],
)
def test_kernels_on_cuda(scheme: str, kernels: list[str], said: str | None) -> None:
    found = plan(scheme, H100)
    assert found.mode.mode == "native"
    if said is None:
        require_kernels(found, tuple(kernels), "cuda", Path("log"))
        return
    with pytest.raises(EngineError, match=said):
        require_kernels(found, tuple(kernels), "cuda", Path("log"))


def test_four_bit_activations_on_a_weight_only_kernel() -> None:
    """Without native FP4 the engine serves NVFP4 as weights alone, and says so in a line of log."""
    blackwell = Hardware("host", frozenset(), 8, 64.0, ("NVIDIA B200",), 10.0)
    found = plan("nvfp4", blackwell)
    require_kernels(found, ("CutlassNvFp4LinearKernel",), "cuda", Path("log"))
    with pytest.raises(EngineError, match="leaves activations at 16 bits"):
        require_kernels(found, ("MarlinNvFp4LinearKernel",), "cuda", Path("log"))


def test_torch_products_are_a_reference_on_cpu() -> None:
    native = plan("int8-w8a8", AMX)
    with pytest.raises(EngineError, match="reference kernel"):
        require_kernels(native, ("ChannelWiseTorchFP8ScaledMMLinearKernel",), "cpu", Path("log"))


def test_what_is_simulated_has_no_kernel_to_show() -> None:
    found = plan("fp8-dynamic", AMX)
    assert found.mode.mode == "simulated"
    require_kernels(found, ("EmulationNvFp4LinearKernel",), "cpu", Path("log"))
