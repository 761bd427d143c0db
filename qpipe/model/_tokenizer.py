"""Loads a tokenizer from its folder."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from qpipe.errors import ConfigError, Fault

__all__ = ["load_tokenizer", "on_a_fixed_day"]

_DAY = date(2025, 1, 1)


def on_a_fixed_day(form: str) -> str:
    """``strftime`` for chat templates that write today's date: every variant gets one prompt."""
    return _DAY.strftime(form)


def load_tokenizer(
    folder: Path,
    trust_remote_code: bool,
    *,
    shown: str | None = None,
    mend: str = "run `qpipe model` again",
) -> Any:
    """transformers' tokenizer of the model in ``folder``, which nothing is fetched for.

    Raises:
        ConfigError: it does not load; the fault names the folder as ``shown``, and ``mend``.
    """
    # Else transformers advises to install torch, which tokenizing does without.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # of many kinds, down to the tokenizers library's own
        message = f"the tokenizer cannot be loaded: {error}"
        raise ConfigError([Fault(shown or str(folder), "tokenizer", message, mend)]) from error
