"""Prompts as the model sees them: text, and token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qpipe.errors import InvalidMeasurement
from qpipe.model import on_a_fixed_day

__all__ = ["Bos", "render"]


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
        strftime_now=on_a_fixed_day,
    )
    return rendered


@dataclass(frozen=True)
class Bos:
    """What begins a prompt: as much as the tokenizer's own templates give, and once."""

    ids: tuple[int, ...]
    """The BOS token; empty where the tokenizer has none."""
    before_text: bool
    """Whether the tokenizer sets it before a plain text; a rendered chat brings its own or none."""

    @classmethod
    def of(cls, tokenizer: Any) -> Bos:
        """The rule of one tokenizer, from what it does with a text."""
        bare = list(tokenizer("a", add_special_tokens=False)["input_ids"])
        full = list(tokenizer("a")["input_ids"])
        at = next((at for at in range(len(full)) if full[at : at + len(bare)] == bare), 0)
        if at:  # some set more than one token
            return cls(tuple(full[:at]), True)
        bos = tokenizer.bos_token_id
        return cls(() if bos is None else (bos,), False)

    def begin(self, ids: Sequence[int], chat: bool) -> list[int]:
        """A prompt whose own tokens, without special ones, are ``ids``.

        Raises:
            InvalidMeasurement: it would begin with BOS twice.
        """
        prompt = list(ids)
        if self.before_text and not chat and not self.begins(prompt):
            prompt = [*self.ids, *prompt]
        self.check(prompt, chat)
        return prompt

    def begins(self, prompt: Sequence[int]) -> bool:
        """Whether BOS begins ``prompt``."""
        return bool(self.ids) and tuple(prompt[: len(self.ids)]) == self.ids

    def check(self, prompt: Sequence[int], chat: bool) -> None:
        """Check the ids of a whole prompt.

        Raises:
            InvalidMeasurement: BOS is missing, or there twice.
        """
        if self.before_text and not chat and not self.begins(prompt):
            raise InvalidMeasurement(
                "a prompt lacks the BOS token that its tokenizer sets before a text",
                mend="take its task out of the suite: it makes its prompts past the tokenizer",
            )
        if self.begins(prompt) and self.begins(prompt[len(self.ids) :]):
            raise InvalidMeasurement(
                "a prompt begins with two BOS tokens",
                mend="take the BOS out of the rows or out of the chat template",
            )
