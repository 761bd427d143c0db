"""Run in the quantize environment: the coverage worker over a model of two linear modules."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "qpipe" / "workers"))
import coverage


class Model(torch.nn.Module):
    """``a`` sees token t as (t, 2t, …); ``b`` sees it with the sign turned."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    @property
    def base_model(self) -> Model:
        return self

    def forward(self, ids: torch.Tensor, use_cache: bool) -> None:
        x = ids[..., None] * torch.tensor([1.0, 2, 3, 4])
        self.a(x), self.b(-x)


model = Model()
modules = {"a": model.a, "b": model.b}
rows = [[99, 1, 3], [99, 2], [99, 1, 1]]
seen = {
    "calibration": coverage.observe(model, modules, rows),
    "like": coverage.observe(model, modules, [[99, 3, 1], [99, 2, 1, 1]]),
    "more": coverage.observe(model, modules, [[0, 4], [0, 5, 1]]),
    "most": coverage.observe(model, modules, [[0, 6]]),
}
first = seen["calibration"]["b"]
coverage.BATCH_TOKENS = 1
one_by_one = coverage.observe(model, modules, rows)["b"]
# Channel 3 alone is larger, and only in b.
spiked = {name: coverage.Channels(c.largest.clone(), c.squares.clone(), c.tokens) for name, c in seen["like"].items()}  # fmt: skip
spiked["b"].largest[3] *= 2
spiked["b"].squares[3] *= 100
own = seen.pop("calibration")
kin = {"like": "x", "more": "x", "most": "y"}
print(
    json.dumps(
        {
            "largest": first.largest.tolist(),
            "moments": first.moments.tolist(),
            "tokens": first.tokens,
            "batches": torch.equal(first.largest, one_by_one.largest)
            and torch.allclose(first.moments, one_by_one.moments),
            "hooks left": len(model.a._forward_pre_hooks),
            "like": coverage.compare(seen["like"], own, None, 1.5),
            "more": coverage.compare(seen["more"], own, coverage._rest(seen, "more", kin), 1.5),
            "spiked": coverage.compare(spiked, own, None, 1.5),
            "rest": coverage._rest(seen, "most", kin)["a"].largest.tolist(),
            "no rest": coverage._rest({"like": seen["like"]}, "like", kin),
        }
    )
)
