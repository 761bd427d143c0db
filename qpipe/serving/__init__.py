"""A variant as a running server."""

from qpipe.serving._client import Client, Completion, PromptLogprobs, Tokens, require_ended
from qpipe.serving._each import another_concurrency, each
from qpipe.serving._plan import (
    Plan,
    context_tokens,
    plan_serving,
    serve_settings,
    shortest_context,
)
from qpipe.serving._server import Server, start

__all__ = [
    "Client",
    "Completion",
    "Plan",
    "PromptLogprobs",
    "Server",
    "Tokens",
    "another_concurrency",
    "context_tokens",
    "each",
    "plan_serving",
    "require_ended",
    "serve_settings",
    "shortest_context",
    "start",
]
