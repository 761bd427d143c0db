"""The unquantized model: from its source to a BF16 checkpoint with a manifest."""

from qpipe.model._checkpoint import (
    Linear,
    describe,
    has_chat_template,
    headers,
    linears,
    require_checkpoint,
    require_unchanged,
)
from qpipe.model._stage import make_model

__all__ = [
    "Linear",
    "describe",
    "has_chat_template",
    "headers",
    "linears",
    "make_model",
    "require_checkpoint",
    "require_unchanged",
]
