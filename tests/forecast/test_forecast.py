from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qpipe.config import Config
from qpipe.errors import EnvError, MissingInput
from qpipe.forecast import _forecast
from qpipe.forecast import forecast as examine
from qpipe.forecast._forecast import Forecast, _bits
from qpipe.hardware import Gpu, Hardware
from qpipe.paths import Workspace
from qpipe.records import write_json
from qpipe.room import GIB
from qpipe.schemes import work_of
from tests.workspace_fixture import (
    AMX,
    AVX2,
    H100,
    checked_in_scheme,
    silent,
    small_config,
    write_model,
)

WEIGHTS = 32 * 128 * 2 + 128 * 128 + 64 * 128 + 128 * 192 + 128
HEADS = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}


@pytest.fixture
def config(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Config:
    write_model(workspace)
    (workspace.model / "config.json").write_text(json.dumps({**HEADS, "hidden_size": 128}))
    monkeypatch.setattr(_forecast, "throughput", lambda _: 1e11)
    monkeypatch.setattr(_forecast, "memory_free", lambda: 16 * GIB)
    monkeypatch.setattr(_forecast, "memory_total", lambda: 24 * GIB)
    monkeypatch.setattr(_forecast, "disk_free", lambda _: 100 * GIB)
    monkeypatch.setattr(_forecast, "visible_gpus", lambda: [Gpu("0", "G", "H100", 9.0, 0, 81559)])
    return small_config(workspace)


def forecast(config: Config, variant: str, hardware: Hardware) -> Forecast:
    return examine(config, work_of(config, variant), hardware)


def needs(found: Forecast) -> dict[str, float]:
    return {need.what: need.needed for need in (found.disk, found.weights, *found.memory)}


def test_native_variant_has_no_twin(config: Config) -> None:
    found = forecast(config, "gptq", AMX)
    assert (found.mode.mode, found.twin_bytes) == ("native", 0)
    assert list(needs(found)) == [
        "disk for the checkpoint",
        "memory and swap for the weights alone",
        "memory to quantize",
        "memory to serve",
        "KV cache for one sequence of full length",
    ]
    assert found.disk.needed > found.checkpoint_bytes > 0
    assert found.work.rows == 128 and found.work.tokens == 512
    found.require()


def test_twin_is_counted(config: Config) -> None:
    found = forecast(config, "gptq", AVX2)
    assert (found.mode.mode, found.twin_bytes) == ("simulated", 2 * WEIGHTS)
    assert found.disk.what == "disk for the checkpoint and its dequantized twin"
    assert found.disk.needed > found.checkpoint_bytes + 2 * WEIGHTS
    # float32 where bfloat16 is emulated: twice the stored.
    assert needs(found)["memory to serve"] == 2 * GIB + 4 * WEIGHTS + 2 * GIB


def test_what_the_engine_alone_quantizes(config: Config) -> None:
    config.schemes["kv-fp8"] = checked_in_scheme("kv-int4")  # type: ignore[index]
    found = forecast(config, "kv", AVX2)
    assert (found.work.rows, found.twin_bytes, found.weights.needed) == (0, 0, 0)
    assert found.checkpoint_bytes == 2 * WEIGHTS


@pytest.mark.parametrize(("hardware", "width"), [(AMX, 2), (AVX2, 4)])
def test_checking_what_is_ready_made_takes_the_model(
    config: Config, hardware: Hardware, width: int
) -> None:
    ready = {"gptq": {"scheme": "gptq-w4a16", "checkpoint": "path:ready"}}
    ready_made = small_config(config.workspace, variants=ready, sensitivity={}, fallback={})
    found = forecast(ready_made, "gptq", hardware)
    assert found.weights.needed == width * WEIGHTS
    assert needs(found)["memory to check the checkpoint"] == GIB + width * WEIGHTS


def test_what_the_hub_sends_is_kept_twice(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))

    def disk(source: str) -> float:
        ready = {"gptq": {"scheme": "gptq-w4a16", "checkpoint": source}}
        made = small_config(config.workspace, variants=ready, sensitivity={}, fallback={})
        return forecast(made, "gptq", AMX).disk.needed

    once = disk("path:ready")
    assert disk("hub:org/name@abc") == 2 * once
    blobs = tmp_path / "cache" / "models--org--name" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "abc").write_bytes(bytes(100))
    assert disk("hub:org/name@abc") == 2 * once - 100
    (blobs / "def").write_bytes(bytes(int(once)))
    assert disk("hub:org/name@abc") == once


@pytest.mark.parametrize(("variant", "width"), [("gptq", 2), ("kv", 1)])
def test_cache_of_one_sequence(config: Config, variant: str, width: int) -> None:
    found = forecast(config, variant, AMX)
    assert needs(found)["KV cache for one sequence of full length"] == 2 * 64 * width * 2048


def test_gpu(config: Config) -> None:
    found = forecast(config, "gptq", H100)
    assert found.memory[1].what == "GPU memory to quantize"
    served = found.memory[2]
    assert served.what == "memory of each of 1 GPUs to serve"
    assert served.there == pytest.approx(81559 * 2**20 * 0.92)
    assert served.needed == 2 * GIB + found.checkpoint_bytes + 2 * 64 * 2 * 2048


def test_rows_are_those_that_the_scheme_takes(config: Config) -> None:
    assert forecast(config, "fp8", AMX).work.rows == 0
    scheme = config.schemes["gptq-w4a16"].model_copy(update={"calibration_samples": 6})
    config.schemes["gptq-w4a16"] = scheme  # type: ignore[index]
    assert forecast(config, "gptq", AMX).work.rows == 6


def test_fallback(config: Config) -> None:
    with pytest.raises(MissingInput, match="qpipe sensitivity gptq"):
        forecast(config, "gptq-mixed", AMX)
    unit = {"unit": "model.layers.0.self_attn.qkv_proj", "kl": 0.2}
    write_json(config.workspace.sensitivity("gptq"), {"units": [unit]})
    found = forecast(config, "gptq-mixed", AMX).work
    assert (len(found.quantized), len(found.restored), found.ignored) == (1, 2, [])


@pytest.mark.parametrize("short", ["disk_free", "memory_total"])
def test_sure_shortage_stops_a_run(
    config: Config, monkeypatch: pytest.MonkeyPatch, short: str
) -> None:
    monkeypatch.setattr(_forecast, short, lambda *_: 100)
    found = forecast(config, "gptq", AMX)
    for check in (found.require, lambda: found.require_to_start(silent)):
        with pytest.raises(EnvError, match=r"0\.00 GiB needed, 0\.00 GiB there") as caught:
            check()
        assert caught.value.mend


def test_estimated_shortage_warns(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_forecast, "memory_free", lambda: GIB // 2)
    found, said = forecast(config, "gptq", AMX), list[str]()
    found.require_to_start(said.append)
    assert [line.split(":")[1].strip() for line in said[:-1]] == [
        "memory to quantize",
        "memory to serve",
    ]
    assert said[-1] == f"{found.duration}, a rough size"
    with pytest.raises(EnvError, match="memory to serve"):
        found.require()


def test_record_is_json(config: Config) -> None:
    record: dict[str, Any] = json.loads(json.dumps(forecast(config, "gptq", AMX).record()))
    assert record["calibration"] == {"rows": 128, "tokens": 512}
    assert record["mode"] == "native" and len(record["quantized"]) == 3
    assert {"what", "needed_gib", "there_gib", "fits"} == set(record["needs"][0])


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("bf16", 16),
        ("fp32", 32),
        ("fp8_e4m3", 8),
        ("int4_per_token_head", 4),
        ("bfloat16", 16),
        ("odd", 16),
    ],
)
def test_bits(name: str, bits: int) -> None:
    assert _bits(name) == bits


@pytest.mark.parametrize(
    ("seconds", "said"), [(40, "about 40 s"), (125, "about 2 min"), (9000, "about 2.5 h")]
)
def test_duration(config: Config, seconds: float, said: str) -> None:
    found = forecast(config, "gptq", Hardware("x", AMX.cpu_flags, 2, 24.0))
    assert Forecast(**{**vars(found), "seconds": seconds}).duration == said
