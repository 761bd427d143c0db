"""The unquantized model: from its source to a BF16 checkpoint with a manifest."""

from qpipe.model._architecture import Architecture, architecture
from qpipe.model._checkpoint import (
    TEMPLATE_FILES,
    TOKENIZER_FILES,
    Linear,
    describe,
    has_chat_template,
    headers,
    linears,
    require_checkpoint,
    require_unchanged,
)
from qpipe.model._companions import GENERATION_FILES, adopt_companions, require_companions
from qpipe.model._stage import Origin, fetch, make_model
from qpipe.model._tokenizer import load_tokenizer, on_a_fixed_day

__all__ = [
    "GENERATION_FILES",
    "TEMPLATE_FILES",
    "TOKENIZER_FILES",
    "Architecture",
    "Linear",
    "Origin",
    "adopt_companions",
    "architecture",
    "describe",
    "fetch",
    "has_chat_template",
    "headers",
    "linears",
    "load_tokenizer",
    "make_model",
    "on_a_fixed_day",
    "require_checkpoint",
    "require_companions",
    "require_unchanged",
]
