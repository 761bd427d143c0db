"""Quantize environment: one scheme on one checkpoint with llm-compressor."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch
from _args import args_of
from _protocol import Refusal, peak_memory_gib, progress, rows_of, run, versions
from _smoke import read_back
from _weights import Checkpoint
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from datasets import Dataset
from llmcompressor import oneshot
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
    scheme = request["scheme"]
    recipe = _recipe(scheme, request["packed"])
    torch.manual_seed(request["seed"])
    progress("loading the model")
    model = AutoModelForCausalLM.from_pretrained(
        request["model"],
        dtype=_compute_dtype(),
        trust_remote_code=request["trust_remote_code"],
        use_safetensors=True,
    )
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
    checkpoint, base = (Checkpoint(Path(request[name])) for name in ("output", "model"))
    checked = read_back(
        checkpoint,
        base,
        scheme,
        request["modules"],
        _compute_dtype(),
        request["trust_remote_code"],
        expected_bytes=request["expected_bytes"],
    )
    return {
        **checked,
        "seconds": seconds,
        "peak_memory_gib": peak,
        "versions": versions("torch", "llmcompressor", "transformers"),
    }


def _recipe(scheme: dict[str, Any], packed: bool) -> list[Any]:
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
            params |= {"ignore": scheme["ignore"], "kv_cache_scheme": kv}
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


def _compute_dtype() -> torch.dtype:
    # Without AVX512-BF16 or AMX, bfloat16 products are emulated: 7 times slower than float32.
    native = torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if native else torch.float32


def _spare_pinned_memory() -> None:
    """AWQ pins memory, which raises on a machine without an accelerator (llmcompressor 0.14)."""
    if not torch.accelerator.is_available():
        from llmcompressor.pipelines.cache import IntermediatesCache

        IntermediatesCache.pin_memory = lambda *args, **kwargs: None


if __name__ == "__main__":
    run(work)
