"""The model's tokenizer, as calibration needs it."""

from __future__ import annotations

import json
from pathlib import Path

from qpipe.calibration._mix import Document
from qpipe.errors import ConfigError, Fault, MissingInput
from qpipe.model import load_tokenizer, on_a_fixed_day
from qpipe.records import digest, hash_file

__all__ = ["Tokenizer"]

FILES = (
    "added_tokens.json",
    "chat_template.jinja",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)


class Tokenizer:
    """Encodes documents and joins them to one stream.

    ``prefix`` is what the model expects ahead of any text (BOS or nothing).
    """

    def __init__(self, folder: Path, trust_remote_code: bool) -> None:
        files = [folder / name for name in FILES if (folder / name).is_file()]
        if not files:
            raise MissingInput(folder / "tokenizer.json", "qpipe model")
        self.folder = folder
        self.hash = digest([(path.name, hash_file(path)) for path in files])
        self._inner = load_tokenizer(folder, trust_remote_code)
        own: int | None = self._inner.eos_token_id
        # Tokenizers converted from GGUF may name another token than the one the model stops at.
        self._stops = _stop_tokens(folder) or ([] if own is None else [own])
        if not self._stops:
            mend = "set eos_token in tokenizer_config.json"
            raise ConfigError([self._fault("eos_token", "the tokenizer has no EOS token", mend)])
        self.eos = own if own in self._stops else self._stops[0]
        self.notes: list[str] = []
        if own not in self._stops:
            self.notes.append(
                f"documents are parted by token {self.eos}, at which the model stops by its config;"
                f" its tokenizer names {own}"
            )
        bos = self._inner.bos_token_id
        leads = bos is not None and self._inner("a")["input_ids"][:1] == [bos]
        self.prefix: list[int] = [bos] if leads else []

    def encode(self, document: Document, faults: list[Fault]) -> list[int]:
        """Token ids of one document; a conversation the template refuses is a fault."""
        text = document.content
        if not isinstance(text, str):
            rendered = self._render(document, faults)
            if rendered is None:
                return []
            text = rendered
        # verbose=False: a document may be longer than the model's window, rows are not.
        ids: list[int] = self._inner(text, add_special_tokens=False, verbose=False)["input_ids"]
        # Templates write BOS themselves; rows get it from the prefix.
        return ids[len(self.prefix) :] if self.prefix and ids[:1] == self.prefix else ids

    def decode(self, ids: list[int]) -> str:
        """The text of token ids, without special tokens."""
        text: str = self._inner.decode(ids, skip_special_tokens=True)
        return text

    def join(self, documents: list[list[int]]) -> tuple[list[int], list[int]]:
        """One stream with EOS between documents, and where each document ends in it."""
        stream: list[int] = []
        ends = []
        for ids in documents:
            if stream and stream[-1] not in self._stops:
                stream.append(self.eos)
            stream += ids
            ends.append(len(stream))
        return stream, ends

    def _render(self, document: Document, faults: list[Fault]) -> str | None:
        from jinja2 import TemplateError

        if not self._inner.chat_template:
            message = "the model has no chat template"
            mend = (
                "use an instruction-tuned model, put a chat_template.jinja beside its tokenizer,"
                " or take the sources of format 'messages' out of the mix"
            )
            raise ConfigError([self._fault("chat_template", message, mend)])
        try:
            text: str = self._inner.apply_chat_template(
                document.content, tokenize=False, strftime_now=on_a_fixed_day
            )
        except TemplateError as error:
            message = f"the model's chat template refuses the conversation: {error}"
            mend = "use the roles and the order of turns that the model knows"
            faults.append(Fault(document.where, "messages", message, mend))
            return None
        # Whitespace after the last turn would part its EOS from the next document.
        return text.rstrip()

    def _fault(self, key: str, message: str, mend: str) -> Fault:
        return Fault(str(self.folder), key, message, mend)


def _stop_tokens(folder: Path) -> list[int]:
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            stops = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
            if stops is not None:
                return stops if isinstance(stops, list) else [stops]
    return []
