"""AutoAWQ's environment: one AWQ scheme on one checkpoint, in AutoAWQ's own format."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from _protocol import Refusal, peak_memory_gib, progress, rows_of, run, versions
from awq import AutoAWQForCausalLM
from awq.models.base import BaseAWQForCausalLM

SET = {
    *("self", "tokenizer", "quant_config", "calib_data", "split", "text_column"),
    *("max_calib_samples", "max_calib_seq_len", "quantizer_cls", "export_compatible", "kwargs"),
}
"""Of AutoAWQ's parameters, what qpipe sets or a scheme's file cannot say."""


def work(request: dict[str, Any]) -> dict[str, Any]:
    scheme, output = request["scheme"], Path(request["output"])
    weights, params = scheme["weights"], scheme["steps"][0]["params"]
    _require_known(params)
    rows = rows_of(request)
    torch.manual_seed(request["seed"])
    progress("loading the model")
    with tempfile.TemporaryDirectory(prefix="qpipe-") as folder:
        _for_older_transformers(Path(request["model"]), Path(folder))
        model = AutoAWQForCausalLM.from_pretrained(
            folder,
            torch_dtype=torch.float16 if torch.cuda.is_available() else torch.float32,
            trust_remote_code=request["trust_remote_code"],
            device_map=None,
        )
    started = time.monotonic()
    progress(f"awq over {len(rows)} rows")
    model.quantize(
        None,
        quant_config={
            "w_bit": weights["num_bits"],
            "q_group_size": weights["group_size"],
            "zero_point": not weights["symmetric"],
            "version": "GEMM",
        },
        calib_data=rows,
        max_calib_samples=len(rows),
        max_calib_seq_len=len(rows[0]),
        **params,
    )
    seconds = time.monotonic() - started
    progress("saving the checkpoint")
    # What is not quantized stays as the model has it.
    for module in model.model.modules():
        if not hasattr(module, "qweight"):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(torch.bfloat16)
    model.save_quantized(str(output))
    _take_companions(Path(request["model"]), output)
    return {
        "seconds": seconds,
        "peak_memory_gib": peak_memory_gib(),
        "versions": versions("torch", "autoawq", "transformers"),
    }


def _require_known(params: dict[str, Any]) -> None:
    """Check the names of a scheme's parameters.

    Raises:
        Refusal: AutoAWQ has none of that name, or qpipe sets it.
    """
    known = {*signature(BaseAWQForCausalLM.quantize).parameters} - SET
    unknown = sorted({*params} - known)
    if unknown:
        message = f"AutoAWQ has no parameter {', '.join(unknown)} that a scheme can set"
        raise Refusal(message, f"correct `params` in the scheme's file: {', '.join(sorted(known))}")


def _for_older_transformers(model: Path, folder: Path) -> None:
    """A view of the model whose config tells version 4 what version 5 tells otherwise.

    It would take the default for a rotary base that it does not find, and no one would notice.
    """
    for path in model.glob("*.safetensors*"):
        (folder / path.name).symlink_to(path.resolve())
    for path in model.glob("*.py"):
        shutil.copy2(path, folder / path.name)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    rope = dict(config.pop("rope_parameters", None) or {})
    if rope:
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None
    config.setdefault("torch_dtype", config.pop("dtype", "bfloat16"))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _take_companions(model: Path, output: Path) -> None:
    """The model's own config, less what quantizing adds, and all that is no weight."""
    path = output / "config.json"
    method = json.loads(path.read_text(encoding="utf-8"))["quantization_config"]
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    path.write_text(
        json.dumps({**config, "quantization_config": method}, indent=2), encoding="utf-8"
    )
    for each in model.iterdir():
        if each.name not in ("config.json", "manifest.json") and ".safetensors" not in each.name:
            shutil.copy2(each, output / each.name)


if __name__ == "__main__":
    run(work)
