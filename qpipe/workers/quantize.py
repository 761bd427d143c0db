"""Quantize environment: one scheme on one checkpoint with llm-compressor."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch
from _args import args_of
from _protocol import Refusal, peak_memory_gib, progress, rows_of, run, versions
from _smoke import UNKNOWN, compute_dtype, read_back, require_names
from _weights import Checkpoint
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modeling.moe.linearize import get_non_linearized_moes
from pydantic import ValidationError
from transformers import AutoModelForCausalLM, AutoTokenizer

MODIFIERS = {
    "smoothquant": ("llmcompressor.modifiers.transform.smoothquant", "SmoothQuantModifier"),
    "awq": ("llmcompressor.modifiers.transform.awq", "AWQModifier"),
    "gptq": ("llmcompressor.modifiers.quantization", "GPTQModifier"),
    "rtn": ("llmcompressor.modifiers.quantization", "QuantizationModifier"),
}
# These move scale between modules and carry no quantization scheme of their own.
TRANSFORMS = {"smoothquant", "awq"}


def work(request: dict[str, Any]) -> dict[str, Any]:
    _spare_pinned_memory()
    scheme, base = request["scheme"], Checkpoint(Path(request["model"]))
    torch.manual_seed(request["seed"])
    progress("loading the model")
    model = AutoModelForCausalLM.from_pretrained(
        request["model"],
        dtype=compute_dtype(),
        trust_remote_code=request["trust_remote_code"],
        use_safetensors=True,
    )
    require_names(base.names, model.state_dict())
    recipe = _recipe(scheme, request["packed"], _ignore(model, scheme, request["modules"]))
    tokenizer = AutoTokenizer.from_pretrained(
        request["model"], trust_remote_code=request["trust_remote_code"]
    )
    rows = rows_of(request)
    started = time.monotonic()
    progress(f"{' + '.join(step['method'] for step in scheme['steps'])} over {len(rows)} rows")
    calibration: dict[str, Any] = {}
    if rows:
        calibration = {
            "dataset": Dataset.from_dict(
                {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows]}
            ),
            "num_calibration_samples": len(rows),
            "max_seq_length": max(len(row) for row in rows),
            "shuffle_calibration_samples": False,
        }
    oneshot(model=model, recipe=recipe, processor=tokenizer, **calibration)
    seconds = time.monotonic() - started
    progress("saving the checkpoint")
    model.to(torch.bfloat16)
    model.save_pretrained(request["output"], save_compressed=True)
    tokenizer.save_pretrained(request["output"])
    del model
    peak = peak_memory_gib()
    progress("checking the checkpoint")
    checked = read_back(
        Checkpoint(Path(request["output"])),
        base,
        scheme,
        request["modules"],
        compute_dtype(),
        request["trust_remote_code"],
        expected_bytes=request["expected_bytes"],
    )
    return {
        **checked,
        "seconds": seconds,
        "peak_memory_gib": peak,
        "versions": versions("torch", "llmcompressor", "transformers"),
    }


def _ignore(model: Any, scheme: dict[str, Any], modules: list[str]) -> list[str]:
    """Names of all that llm-compressor would quantize beside ``modules``.

    Its target is every linear module, a router or a vision tower too, and it matches patterns
    otherwise than qpipe does.

    Raises:
        Refusal: it would not find one of ``modules``, or makes linear modules of experts by itself.
    """
    if get_non_linearized_moes(model):
        raise Refusal("transformers makes one tensor of a layer's experts", UNKNOWN)
    if not scheme["weights"]:
        return list(scheme["ignore"])
    linears = [name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear)]
    lost = sorted({*modules} - {*linears})
    if lost:
        raise Refusal(f"{lost[0]} is no linear module of the loaded model", UNKNOWN)
    wanted = set(modules)
    return [name for name in linears if name not in wanted]


def _recipe(scheme: dict[str, Any], packed: bool, ignore: list[str]) -> list[Any]:
    groups, kv = {}, None
    if scheme["weights"] or scheme["activations"]:
        quant = QuantizationScheme(
            targets=["Linear"],
            weights=_args(scheme["weights"]),
            input_activations=_args(scheme["activations"]),
            format="pack-quantized" if packed else None,
        )
        groups = {"group_0": quant}
    if scheme["kv_cache"]:
        kv = _args(scheme["kv_cache"])
    recipe = []
    for step in scheme["steps"]:
        module, name = MODIFIERS[step["method"]]
        params = dict(step["params"])
        if step["method"] not in TRANSFORMS:
            params |= {"ignore": ignore, "kv_cache_scheme": kv}
            if groups:
                params["config_groups"] = groups
        if step["method"] == "gptq":
            # Left out, it is `static` whatever the scheme says.
            params.setdefault("actorder", scheme["weights"]["actorder"])
        try:
            recipe.append(getattr(importlib.import_module(module), name)(**params))
        except ValidationError as error:
            raise Refusal(
                f"{name} refuses its parameters: {error}", "correct `params` in the scheme's file"
            ) from error
    return recipe


def _args(spec: dict[str, Any] | None) -> QuantizationArgs | None:
    return None if spec is None else args_of(spec)


def _spare_pinned_memory() -> None:
    """AWQ pins memory, which raises on a machine without an accelerator (llmcompressor 0.14)."""
    if not torch.accelerator.is_available():
        from llmcompressor.pipelines.cache import IntermediatesCache

        IntermediatesCache.pin_memory = lambda *args, **kwargs: None


if __name__ == "__main__":
    run(work)
