"""Quantize environment: a GGUF file into a BF16 safetensors checkpoint."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import gguf
import torch
from _protocol import Refusal, progress, run
from transformers import AutoModelForCausalLM, AutoTokenizer


def work(request: dict[str, Any]) -> dict[str, Any]:
    output = Path(request["output"])
    # transformers parses the whole file for the config, the weights and the tokenizer each.
    gguf.GGUFReader = functools.cache(gguf.GGUFReader)
    source = Path(request["source"])
    progress("reading the weights")
    folder = str(source.parent)
    where = {"gguf_file": source.name, "trust_remote_code": request["trust_remote_code"]}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **where)
    tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    _forget_gguf(model)
    _mend_special_tokens(tokenizer, model.config)
    progress("writing the checkpoint")
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)
    return {"torch": torch.__version__}


def _forget_gguf(model: Any) -> None:
    """The weights are dequantized; ``save_pretrained`` refuses while the quantizer is attached."""
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.quantization_method = None


def _mend_special_tokens(tokenizer: Any, config: Any) -> None:
    """GGUF conversion may give the tokenizer another end token than the model's config has."""
    if isinstance(config.eos_token_id, int):
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(config.eos_token_id)
    if isinstance(config.pad_token_id, int):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(config.pad_token_id)
    if tokenizer.chat_template is None:
        raise Refusal("the GGUF file has no chat template", "use a source that has one")


if __name__ == "__main__":
    run(work)
