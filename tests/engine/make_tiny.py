"""Quantize environment: a two-layer Llama with a byte tokenizer, made on the spot."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder = sys.argv[1]
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
vocabulary = {token: index for index, token in enumerate(["<s>", "</s>", *letters])}
core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
core.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
)
tokenizer.chat_template = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
tokenizer.save_pretrained(folder)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=320,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=2048,
    tie_word_embeddings=True,
    bos_token_id=0,
    eos_token_id=1,
    # Wide enough that the untrained model prefers some tokens: KL has something to see.
    initializer_range=0.2,
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
