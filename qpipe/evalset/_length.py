"""Rows that do not fit the context they will be asked in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qpipe.config import BusinessSuite, Config
from qpipe.errors import ConfigError, Fault, InvalidMeasurement
from qpipe.model import has_chat_template, load_tokenizer

if TYPE_CHECKING:
    from qpipe.evaluation import Placed, Row

__all__ = ["length_faults", "own_tokenizer", "prompt_of"]


def length_faults(
    config: Config, path: Path, suite: BusinessSuite, rows: Mapping[str, list[Placed]]
) -> Iterator[Fault]:
    """Rows whose prompt and longest answer are beyond a variant's context.

    Without a tokenizer in ``out/model`` there is nothing to count with, and no fault.
    """
    from qpipe.evaluation import Bos
    from qpipe.serving import context_tokens

    placed = [one for group in rows.values() for one in group]
    if not placed:
        return
    if suite.chat and _has_tokenizer(config) and not has_chat_template(config.workspace.model):
        message = "the model's tokenizer has no chat template"
        yield Fault(_shown(path, config), "chat", message, "set `chat: false`")
        return
    try:
        tokenizer = own_tokenizer(config)
    except ConfigError as error:
        yield from error.faults
        return
    if tokenizer is None:
        return
    prompts: list[tuple[Placed, str]] = []
    for one in placed:
        try:
            prompts.append((one, prompt_of(one.row, tokenizer if suite.chat else None)))
        except ConfigError as error:
            yield from (replace(fault, file=one.at) for fault in error.faults)
    if not prompts:
        return
    contexts = {name: context_tokens(config, name) for name in config.release.names}
    shortest = min(contexts.values())
    bos = Bos.of(tokenizer)
    texts = [text for _, text in prompts]
    encoded = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    for (one, _), ids in zip(prompts, encoded, strict=True):
        try:
            prompt = len(bos.begin(ids, suite.chat))
        except InvalidMeasurement as error:
            yield Fault(one.at, one.key, error.message, str(error.mend))
            continue
        answer = _answer_tokens(one.row, suite, tokenizer)
        if prompt + answer > shortest:
            short = [name for name, tokens in contexts.items() if tokens < prompt + answer]
            message = (
                f"{prompt} tokens, and {answer} for the answer, are beyond the context of"
                f" {', '.join(short)} ({shortest})"
            )
            mend = "shorten it, lower `max_tokens`, or raise `serve.max_model_len`"
            yield Fault(one.at, one.key, message, mend)


def own_tokenizer(config: Config) -> Any | None:
    """The model's tokenizer, where ``qpipe model`` brought it.

    Raises:
        ConfigError: it is there and cannot be loaded.
    """
    folder = config.workspace.model
    if not _has_tokenizer(config):
        return None
    trust = config.release.model.trust_remote_code
    return load_tokenizer(folder, trust, shown=_shown(folder, config))


def prompt_of(row: Row, tokenizer: Any | None) -> str:
    """The row's prompt; through ``tokenizer``'s chat template where one is given.

    Raises:
        ConfigError: the template refuses the conversation.
    """
    if tokenizer is None:
        return row.text
    from jinja2 import TemplateError

    from qpipe.evaluation import render

    try:
        return render(tokenizer, row.conversation)
    except TemplateError as error:
        message = f"the model's chat template refuses the conversation: {error}"
        mend = "use the roles and the order of turns that the model knows"
        raise ConfigError([Fault(row.id, "messages", message, mend)]) from error


def _answer_tokens(row: Row, suite: BusinessSuite, tokenizer: Any) -> int:
    if row.choices is None:
        return row.max_tokens or suite.max_tokens
    # A likelihood is asked with one token to generate.
    choices = tokenizer(row.choices, add_special_tokens=False)["input_ids"]
    return max(len(ids) for ids in choices) + 1


def _has_tokenizer(config: Config) -> bool:
    model = config.workspace.model
    return any((model / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))


def _shown(path: Path, config: Config) -> str:
    root = config.workspace.root
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
