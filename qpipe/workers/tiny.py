"""Quantize environment: a small Llama with a byte tokenizer, made on the spot."""

from __future__ import annotations

from typing import Any

import torch
from _protocol import run
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"


def work(request: dict[str, Any]) -> dict[str, Any]:
    """``output``: its folder; ``hidden``, ``head``: sizes of states and of attention's heads."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(["<s>", "</s>", *letters])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(request["output"])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=request["hidden"],
        intermediate_size=2 * request["hidden"],
        num_hidden_layers=2,
        num_attention_heads=request["hidden"] // request["head"],
        num_key_value_heads=request["hidden"] // request["head"] // 2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=1,
        # Wide enough that the untrained model prefers some tokens: KL has something to see.
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(request["output"])
    return {}


if __name__ == "__main__":
    run(work)
