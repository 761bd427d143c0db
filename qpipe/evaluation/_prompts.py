"""Prompts as the model sees them."""

from __future__ import annotations

from typing import Any

__all__ = ["render"]


def render(
    tokenizer: Any, conversation: list[dict[str, str]], add_generation_prompt: bool = True
) -> str:
    """The conversation as the tokenizer's chat template writes it, without thinking."""
    rendered: str = tokenizer.apply_chat_template(
        conversation,
        tokenize=False,
        add_generation_prompt=add_generation_prompt,
        continue_final_message=not add_generation_prompt,
        enable_thinking=False,
    )
    return rendered
