"""Quantize environment: the KL that each fused unit costs, one unit quantized at a time.

The 16-bit model runs a calibration draw once; then each unit alone takes the quantized weights and
the model runs again from that unit's block on (cached block inputs: what comes before is the
same). Compare exllamav3's per-module KL; the run without a swap must give KL 0.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from _fold import BLOCK, can_fold, fold
from _protocol import Refusal, progress, run, versions
from _weights import Checkpoint
from transformers import AutoModelForCausalLM


@torch.inference_mode()
def work(request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    rows = _rows(request)
    trust = request["trust_remote_code"]
    base = AutoModelForCausalLM.from_pretrained(
        request["model"], dtype=torch.float32, trust_remote_code=trust, use_safetensors=True
    ).eval()
    replacements = _folded(base, Checkpoint(Path(request["checkpoint"])))
    progress(f"reference run over {rows.numel()} tokens")
    inputs, keywords = _block_inputs(base, rows)
    reference = _log_probs(base, inputs, keywords, 0)
    control = _kl(reference, _log_probs(base, inputs, keywords, len(inputs) // 2))
    if control != 0.0:
        raise Refusal(
            f"the run without a swap gives KL {control:.2e}, not 0",
            "this model's blocks cannot be run one by one; report its architecture",
        )
    done = _stored(request)
    units = list(request["units"].items())
    for index, (unit, modules) in enumerate(units):
        if unit in done:
            continue
        block = int(unit.split(".layers.")[1].split(".")[0])
        kept = {module: base.get_submodule(module).weight.data for module in modules}
        for module in modules:
            base.get_submodule(module).weight.data = replacements[module]
        kl = _kl(reference, _log_probs(base, inputs, keywords, block))
        for module, weight in kept.items():
            base.get_submodule(module).weight.data = weight
        values = sum(weight.numel() for weight in kept.values())
        done[unit] = {"unit": unit, "kl": kl, "values": values, "modules": modules}
        _store(request, done)
        if (index + 1) % 10 == 0:
            progress(f"{index + 1} of {len(units)} units")
    return {
        "units": [done[unit] for unit, _ in units],
        "tokens": rows.numel(),
        "control_kl": control,
        "seconds": time.monotonic() - started,
        "versions": versions("torch", "transformers", "compressed-tensors"),
    }


def _rows(request: dict[str, Any]) -> torch.Tensor:
    with Path(request["calibration"]).open(encoding="utf-8") as file:
        rows = [json.loads(line)["input_ids"] for line in file]
    return torch.tensor([row[: request["tokens"]] for row in rows[: request["samples"]]])


def _block_inputs(model: Any, rows: torch.Tensor) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """The hidden state at every block boundary, and the keywords all blocks take."""
    inputs: list[torch.Tensor] = []
    keywords: dict[str, Any] = {}

    def remember(module: Any, args: Any, kwargs: Any) -> None:
        inputs.append(args[0] if args else kwargs["hidden_states"])
        keywords.update({k: v for k, v in kwargs.items() if k != "hidden_states"})

    hooks = [
        layer.register_forward_pre_hook(remember, with_kwargs=True) for layer in model.model.layers
    ]
    model.model(rows, use_cache=False)
    for hook in hooks:
        hook.remove()
    return inputs, keywords


def _log_probs(
    model: Any, inputs: list[torch.Tensor], keywords: dict[str, Any], first: int
) -> torch.Tensor:
    """[tokens, vocabulary] from block ``first`` on."""
    hidden = inputs[first]
    for layer in model.model.layers[first:]:
        output = layer(hidden, **keywords)
        hidden = output[0] if isinstance(output, tuple) else output
    logits = model.lm_head(model.model.norm(hidden))
    return torch.log_softmax(logits.flatten(0, 1), dim=-1)


def _kl(p: torch.Tensor, q: torch.Tensor) -> float:
    """Mean KL(P ‖ Q) over tokens, nats, over the full vocabulary."""
    if torch.equal(p, q):
        return 0.0
    return float(torch.nn.functional.kl_div(q, p, log_target=True, reduction="batchmean"))


def _folded(base: Any, checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """Quantized weights of every linear module in the unquantized model's frame."""
    ours = base.state_dict()
    if not can_fold(ours, base.config.to_dict()):
        raise Refusal(
            "the model's blocks are not Llama's",
            "rank a model with Llama's blocks; others are not known yet",
        )
    weights: dict[str, torch.Tensor] = {}
    for index in range(len(base.model.layers)):
        prefix = f"model.layers.{index}."
        mine = {name: ours[f"{prefix}{name}.weight"] for name in BLOCK}
        theirs = {name: checkpoint.weight(f"{prefix}{name}") for name in BLOCK}
        weights |= {f"{prefix}{name}": weight for name, weight in fold(mine, theirs).items()}
    return weights


def _stored(request: dict[str, Any]) -> dict[str, Any]:
    path = Path(request["store"])
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _store(request: dict[str, Any], done: dict[str, Any]) -> None:
    path = Path(request["store"])
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    beside.write_text(json.dumps(done), encoding="utf-8")
    beside.replace(path)


if __name__ == "__main__":
    run(work)
