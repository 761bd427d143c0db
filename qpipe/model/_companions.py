"""What comes with a checkpoint's weights: tokenizer, chat template and the engine's defaults."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qpipe.errors import InvalidMeasurement
from qpipe.model._checkpoint import TEMPLATE_FILES, TOKENIZER_FILES
from qpipe.records import hash_matching

__all__ = ["GENERATION_FILES", "adopt_companions", "require_companions"]

# The engine reads the model's config where there is no generation config.
GENERATION_FILES = ("generation_config.json", "config.json")

# What the engine takes from the generation config, and does where it says nothing (vLLM 0.32).
_NEUTRAL = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "max_new_tokens": None,
}
_PIPELINE = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens")
_SPECIAL = ("bos_token", "eos_token")
_TEMPLATE = "another chat template"
FOREIGN_MEND = (
    "take a checkpoint that was made with the model's own tokenizer; if its weights expect the"
    " model's all the same, download it, copy the model's file over it, and name its folder:"
    " `checkpoint: path:DIR`"
)
# Tokenizers without a pipeline that can be compared are held to what they make of these.
_PROBES = (
    "Hello,  World!\n\tif x >= 3.14:  # naïve café",
    "你好，世界。こんにちは、안녕하세요",
    "Привет, мир; γειά σου; שלום; مرحبا",
    "नमस्ते दुनिया; স্বাগতম; สวัสดี; ሰላም",
    "🙂👩‍💻 ½ ﬁ \u00a0end " * 8,
)


def require_companions(checkpoint: Path, model: Path, made_by: str, trust: bool) -> None:
    """Check that a checkpoint's tokenizer, chat template and generation config are the model's.

    Quantizers write them anew, so what they mean is compared: all parts of the tokenizer but
    padding and truncation, which a call sets, the special tokens that begin and end texts, the
    template's source, and what the engine reads of the generation config.

    Raises:
        InvalidMeasurement: something differs: whoever serves the checkpoint as it lies there would
            serve something else than what is judged.
    """
    if checkpoint != model:
        mend = f"copy the model's over it where the weights still fit, or run `{made_by}` again"
        _require_alike(checkpoint, model, trust, mend)


def adopt_companions(checkpoint: Path, model: Path, trust: bool) -> list[str]:
    """Take the model's generation config and chat template where another's checkpoint differs.

    Both only say how the weights are asked. A tokenizer says what they were trained on, and is
    never put in another's place.

    Returns the names of all files that were replaced, added or removed.

    Raises:
        InvalidMeasurement: texts become other tokens than the model's.
    """
    patterns: list[str] = []
    if list(_other_defaults(checkpoint, model)):
        patterns.append(GENERATION_FILES[0])
    differences = [what for _, what in _other_tokenizer(checkpoint, model, trust)]
    if differences == [_TEMPLATE]:
        # Templates lie in the tokenizer's files too, which mean the same: all come together.
        patterns += [*TOKENIZER_FILES, *TEMPLATE_FILES]
    replaced = _take(checkpoint, model, patterns)
    _require_alike(checkpoint, model, trust, FOREIGN_MEND)
    return replaced


def _take(checkpoint: Path, model: Path, patterns: list[str]) -> list[str]:
    mine, base = (hash_matching(folder, *patterns) for folder in (checkpoint, model))
    changed = sorted(name for name in mine | base if mine.get(name) != base.get(name))
    for name in changed:
        (checkpoint / name).unlink(missing_ok=True)
        if name in base:
            shutil.copy2(model / name, checkpoint / name)
    return changed


def _require_alike(checkpoint: Path, model: Path, trust: bool, mend: str) -> None:
    found = [*_other_defaults(checkpoint, model), *_other_tokenizer(checkpoint, model, trust)]
    if found:
        raise InvalidMeasurement(
            "\n".join(f"{checkpoint / file} is not as in {model}: {what}" for file, what in found),
            mend=mend,
        )


def _hashes(folder: Path) -> dict[str, str]:
    return hash_matching(folder, *TOKENIZER_FILES, *TEMPLATE_FILES)


def _other_tokenizer(checkpoint: Path, model: Path, trust: bool) -> Iterator[tuple[str, str]]:
    """(file, what differs)."""
    if _hashes(checkpoint) == _hashes(model):
        return
    file = "tokenizer.json" if (model / "tokenizer.json").exists() else "tokenizer.model"
    try:
        mine, base = (_tokenizer(folder, trust) for folder in (checkpoint, model))
    except Exception as error:  # of many kinds, down to the tokenizers library's own
        yield file, f"it cannot be loaded: {(str(error).splitlines() or [repr(error)])[0]:.200}"
        return
    other = [part for part in base if mine[part] != base[part]]
    tokens = [part for part in other if part in _SPECIAL]
    rest = [part for part in other if part not in (*_SPECIAL, _TEMPLATE)]
    if rest:
        yield file, f"other {', '.join(rest)}"
    if tokens:
        changes = [f"{part} {mine[part]!r} for {base[part]!r}" for part in tokens]
        yield "tokenizer_config.json", ", ".join(changes)
    if _TEMPLATE in other:
        own_file = any((each / "chat_template.jinja").exists() for each in (checkpoint, model))
        yield ("chat_template.jinja" if own_file else "tokenizer_config.json"), _TEMPLATE


def _tokenizer(folder: Path, trust: bool) -> dict[str, Any]:
    """All that decides what a tokenizer does, in a form that does not depend on how it is saved."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=trust
    )
    core = getattr(tokenizer, "backend_tokenizer", None)
    pipeline = json.loads(core.to_str()) if core is not None else {}
    model = pipeline.get("model", {})
    template = tokenizer.chat_template
    return {
        "vocabulary": tokenizer.get_vocab(),
        "merges": model.get("merges"),
        "model": {key: value for key, value in model.items() if key not in ("vocab", "merges")},
        **{part: pipeline.get(part) for part in _PIPELINE},
        "token ids of sample texts": [tokenizer(text)["input_ids"] for text in _PROBES],
        **{part: getattr(tokenizer, part) for part in _SPECIAL},
        # Jinja drops a newline at the end.
        _TEMPLATE: template.removesuffix("\n") if isinstance(template, str) else template,
    }


def _other_defaults(checkpoint: Path, model: Path) -> Iterator[tuple[str, str]]:
    mine, base = _defaults(checkpoint), _defaults(model)
    other = [f"{key} {mine[key]} for {base[key]}" for key in base if mine[key] != base[key]]
    if other:
        yield GENERATION_FILES[0], ", ".join(other)


def _defaults(folder: Path) -> dict[str, Any]:
    """What the engine does where a request says nothing."""
    path = next(path for name in GENERATION_FILES if (path := folder / name).exists())
    config = json.loads(path.read_text(encoding="utf-8"))
    known = {key: value for key, value in config.items() if value is not None}
    stops = known.get("eos_token_id", [])
    return {
        **{key: known.get(key, neutral) for key, neutral in _NEUTRAL.items()},
        "eos_token_id": sorted(stops) if isinstance(stops, list) else [stops],
    }
