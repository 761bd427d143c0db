from __future__ import annotations

import json
from pathlib import Path

from qpipe.calibration import note_uses
from qpipe.config import Config
from qpipe.paths import Workspace
from tests.workspace_fixture import small_config

VARIANTS = {
    "gptq": {"scheme": "gptq-w4a16"},
    "fp8": {"scheme": "fp8-dynamic"},
    "ready": {"scheme": "gptq-w4a16", "checkpoint": "path:ready"},
}


def noted(config: Config, calibration_hash: str) -> dict[str, bytes]:
    note_uses(config, calibration_hash)
    return {path.stem: path.read_bytes() for path in config.workspace.calibration_uses.iterdir()}


def test_another_set_is_another_for_what_reads_it_alone(tmp_path: Path) -> None:
    config = small_config(Workspace(tmp_path), variants=VARIANTS, sensitivity={}, fallback={})
    first, again, other = (noted(config, each) for each in ("one", "one", "two"))
    assert first == again and set(first) == set(VARIANTS)
    assert {name for name in first if first[name] != other[name]} == {"gptq"}
    assert json.loads(first["gptq"])["hash"] == "one"


def test_a_variant_that_is_gone_leaves_no_record(tmp_path: Path) -> None:
    config = small_config(Workspace(tmp_path), variants=VARIANTS, sensitivity={}, fallback={})
    noted(config, "one")
    fewer = {"fp8": VARIANTS["fp8"]}
    config = small_config(Workspace(tmp_path), variants=fewer, sensitivity={}, fallback={})
    assert set(noted(config, "one")) == {"fp8"}
