"""Quantize environment: mean KL(base ‖ variant) over the whole vocabulary, by transformers."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

base, variant, texts, max_tokens, max_texts = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(base)
models = [
    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for folder in (base, variant)
]
found = []
for text in Path(texts).read_text(encoding="utf-8").split("\n\n")[: int(max_texts)]:
    ids = torch.tensor([tokenizer(text)["input_ids"][: int(max_tokens)]])
    with torch.no_grad():
        log_p, log_q = (model(ids).logits[0, :-1].log_softmax(-1) for model in models)
    found.append((log_p.exp() * (log_p - log_q)).sum(-1))
print(torch.cat(found).mean().item())
