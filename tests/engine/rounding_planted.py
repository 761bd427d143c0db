"""Serve environment: how the simulation rounds activations, KV kinds and all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))
os.environ["QPIPE_KV_DTYPE"] = "fp8"

import torch
from _args import args_of
from simulation_activations import _rounded
from simulation_kv import KINDS

MXFP4 = {
    "num_bits": 4,
    "type": "float",
    "strategy": "group",
    "group_size": 32,
    "dynamic": True,
    "scale_dtype": "uint8",
}
INT8 = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}


def rounded(values: torch.Tensor, spec: dict[str, Any]) -> torch.Tensor:
    return _rounded(values, args_of(spec), {})


def mxfp4(*values: float) -> list[float]:
    row = torch.zeros(1, 64)
    row[0, : len(values)] = torch.tensor(values)
    return [float(each) for each in rounded(row, MXFP4)[0, : len(values)]]


print(
    json.dumps(
        {
            "mxfp4": [mxfp4(top, 1.4) for top in (5.9, 6.0, 6.5, 12.0, 12.5)],
            "mxfp4 zeros": float(rounded(torch.zeros(1, 32), MXFP4).abs().max()),
            "int8": rounded(torch.tensor([[100.0, -127.0, 1.0, 0.4]]), INT8)[0].tolist(),
            "int8 largest": rounded(torch.tensor([[12.7, 0.1]]), INT8)[0].tolist(),
            "int8 zeros": float(rounded(torch.zeros(1, 8), INT8).abs().max()),
            "kv": sorted(KINDS),
        }
    )
)
