from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qpipe.errors import InvalidMeasurement
from qpipe.model import adopt_companions, require_companions

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
LETTERS = ["<s>", "</s>", "H", "e", "l", "o", "Ġ", "w", "r", "d"]
MERGES = [("H", "e"), ("l", "l"), ("He", "ll"), ("w", "o")]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder without weights: a byte-level BPE with a few merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokens = [*LETTERS, *(first + second for first, second in MERGES)]
    core = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=MERGES))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = TEMPLATE
    folder = tmp_path_factory.mktemp("saved")
    tokenizer.save_pretrained(folder)
    write(folder / "config.json", {"model_type": "llama", "eos_token_id": 1})
    write(folder / "generation_config.json", {"eos_token_id": 1, "top_p": 0.9})
    return folder


@pytest.fixture
def folders(saved: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint and its model, alike."""
    found = tmp_path / "checkpoint", tmp_path / "model"
    for folder in found:
        shutil.copytree(saved, folder)
    return found


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    content = read(path)
    change(content)
    write(path, content)


def check(folders: tuple[Path, Path]) -> None:
    require_companions(*folders, "qpipe quantize v", trust=False)


def test_saved_anew_by_a_quantizer(folders: tuple[Path, Path]) -> None:
    """Other bytes, files and order of keys; padding and truncation that calibration left."""
    from transformers import AutoTokenizer

    folder, model = folders
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer("Hello", truncation=True, max_length=8, padding="max_length", pad_to_multiple_of=4)
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").unlink()
    edit(
        folder / "tokenizer_config.json",
        lambda known: known.update(
            chat_template=TEMPLATE + "\n",
            model_max_length=64,
            tokenizer_class="PreTrainedTokenizer",
        ),
    )
    write(folder / "special_tokens_map.json", {"bos_token": "<s>", "eos_token": "</s>"})
    defaults = {"do_sample": False, "temperature": 1.0, "top_p": 0.9, "eos_token_id": [1]}
    write(folder / "generation_config.json", {**defaults, "transformers_version": "9"})
    write(folder / "config.json", {"model_type": "llama", "quantization_config": {}})
    assert (folder / "tokenizer.json").read_bytes() != (model / "tokenizer.json").read_bytes()
    check(folders)


def test_defaults_of_a_model_without_a_generation_config(folders: tuple[Path, Path]) -> None:
    folder, model = folders
    (model / "generation_config.json").unlink()
    write(folder / "generation_config.json", {"eos_token_id": 1, "_from_model_config": True})
    check(folders)
    write(folder / "generation_config.json", {"eos_token_id": [1, 2]})
    with pytest.raises(InvalidMeasurement, match=r"eos_token_id \[1, 2\] for \[1\]"):
        check(folders)


def swap(known: dict[str, Any]) -> None:
    vocabulary = known["model"]["vocab"]
    vocabulary["r"], vocabulary["d"] = vocabulary["d"], vocabulary["r"]


TOKENIZER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "vocabulary": swap,
    "merges": lambda known: known["model"]["merges"].reverse(),
    "model": lambda known: known["model"].update(byte_fallback=True),
    "normalizer": lambda known: known.update(normalizer={"type": "Lowercase"}),
    "pre_tokenizer": lambda known: known["pre_tokenizer"].update(add_prefix_space=True),
    "post_processor": lambda known: known.update(post_processor=None),
    "decoder": lambda known: known.update(decoder={"type": "Fuse"}),
    "added_tokens": lambda known: known["added_tokens"].append(
        {**known["added_tokens"][0], "id": len(LETTERS) + len(MERGES), "content": "<pad>"}
    ),
}


@pytest.mark.parametrize("part", TOKENIZER)
def test_another_tokenizer(folders: tuple[Path, Path], part: str) -> None:
    edit(folders[0] / "tokenizer.json", TOKENIZER[part])
    with pytest.raises(InvalidMeasurement, match=f"tokenizer.json is not as in .*{part}") as caught:
        check(folders)
    assert "run `qpipe quantize v` again" in str(caught.value.mend)


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        (
            "tokenizer_config.json",
            lambda known: known.update(eos_token="<s>"),
            "tokenizer_config.json is not as in .* eos_token '<s>' for '</s>'",
        ),
        (
            "generation_config.json",
            lambda known: known.update(temperature=0.6),
            "generation_config.json is not as in .* temperature 0.6 for 1.0",
        ),
        (
            "generation_config.json",
            lambda known: known.update(eos_token_id=[1, 0]),
            r"generation_config.json is not as in .* eos_token_id \[0, 1\] for \[1\]",
        ),
    ],
)
def test_other_special_tokens_and_defaults(
    folders: tuple[Path, Path], file: str, change: Callable[[Any], Any], says: str
) -> None:
    edit(folders[0] / file, change)
    with pytest.raises(InvalidMeasurement, match=says):
        check(folders)


def test_another_chat_template(folders: tuple[Path, Path]) -> None:
    (folders[0] / "chat_template.jinja").write_text(TEMPLATE.replace("<", "["))
    with pytest.raises(InvalidMeasurement, match=r"chat_template\.jinja is not as in"):
        check(folders)
    (folders[0] / "chat_template.jinja").unlink()
    with pytest.raises(InvalidMeasurement, match=r"chat_template\.jinja is not as in"):
        check(folders)


def test_no_tokenizer(folders: tuple[Path, Path]) -> None:
    (folders[0] / "tokenizer.json").unlink()
    with pytest.raises(InvalidMeasurement, match=r"tokenizer\.json is not as in .* be loaded"):
        check(folders)


def test_all_that_differs_comes_together(folders: tuple[Path, Path]) -> None:
    edit(folders[0] / "tokenizer.json", swap)
    (folders[0] / "chat_template.jinja").write_text("x")
    write(folders[0] / "generation_config.json", {"top_k": 50})
    with pytest.raises(InvalidMeasurement) as caught:
        check(folders)
    assert len(caught.value.message.splitlines()) == 3


def test_adopting_what_is_alike_changes_nothing(folders: tuple[Path, Path]) -> None:
    edit(folders[0] / "tokenizer_config.json", lambda known: known.update(model_max_length=64))
    before = {path.name: path.read_bytes() for path in folders[0].iterdir()}
    assert adopt_companions(*folders, trust=False) == []
    assert {path.name: path.read_bytes() for path in folders[0].iterdir()} == before


def test_adopting_the_generation_config(folders: tuple[Path, Path]) -> None:
    folder, model = folders
    edit(folder / "generation_config.json", lambda known: known.update(temperature=0.6))
    assert adopt_companions(*folders, trust=False) == ["generation_config.json"]
    check(folders)
    (model / "generation_config.json").unlink()
    assert adopt_companions(*folders, trust=False) == ["generation_config.json"]
    assert not (folder / "generation_config.json").exists()


def test_adopting_the_chat_template_wherever_it_lies(folders: tuple[Path, Path]) -> None:
    folder, model = folders
    other = TEMPLATE.replace("<", "[")
    (folder / "chat_template.jinja").write_text(other)
    assert adopt_companions(*folders, trust=False) == ["chat_template.jinja"]
    check(folders)
    # The model's lies in the tokenizer's config, the checkpoint's in a file that would win.
    (model / "chat_template.jinja").unlink()
    edit(model / "tokenizer_config.json", lambda known: known.update(chat_template=TEMPLATE))
    (folder / "chat_template.jinja").write_text(other)
    replaced = adopt_companions(*folders, trust=False)
    assert replaced == ["chat_template.jinja", "tokenizer_config.json"]
    assert not (folder / "chat_template.jinja").exists()
    check(folders)


@pytest.mark.parametrize("part", TOKENIZER)
def test_another_tokenizer_is_never_adopted(folders: tuple[Path, Path], part: str) -> None:
    folder = folders[0]
    edit(folder / "tokenizer.json", TOKENIZER[part])
    (folder / "chat_template.jinja").write_text("x")
    known = (folder / "tokenizer.json").read_bytes()
    with pytest.raises(InvalidMeasurement, match=part) as caught:
        adopt_companions(*folders, trust=False)
    assert (folder / "tokenizer.json").read_bytes() == known
    assert "checkpoint: path:DIR" in str(caught.value.mend)
    assert "qpipe quantize" not in str(caught.value.mend)
