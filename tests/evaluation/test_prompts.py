from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qpipe.errors import InvalidMeasurement
from qpipe.evaluation import Bos, render
from tests.evaluation.conftest import write_tokenizer


def load(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("before", [(), ("<s>",), ("<mask>", "<s>")])
@pytest.mark.parametrize("chat", [False, True])
def test_a_prompt_begins_as_the_tokenizers_own_template_begins_it(
    tmp_path: Path, before: tuple[str, ...], chat: bool
) -> None:
    tokenizer = load(write_tokenizer(tmp_path, before=before))
    bos = Bos.of(tokenizer)
    assert bos.before_text == bool(before)
    own = tokenizer("ab", add_special_tokens=False)["input_ids"]
    expected = own if chat else tokenizer("ab")["input_ids"]
    assert bos.begin(own, chat) == expected
    assert bos.begin(bos.begin(own, chat), chat) == expected, "not twice"
    assert bos.begins(expected) == (bool(before) and not chat)


def test_a_template_that_writes_the_date_writes_one_for_all(tmp_path: Path) -> None:
    """A variant that is measured after midnight is asked what the baseline was asked."""
    template = "Today: {{ strftime_now('%d %B %Y') }}. {{ messages[0]['content'] }}"
    tokenizer = load(write_tokenizer(tmp_path, template=template))
    conversation = [{"role": "user", "content": "Hi"}]
    assert render(tokenizer, conversation) == "Today: 01 January 2025. Hi"


def test_a_tokenizer_without_bos(tmp_path: Path) -> None:
    tokenizer = load(write_tokenizer(tmp_path, before=()))
    tokenizer.bos_token = None
    bos = Bos.of(tokenizer)
    assert bos == Bos((), False)
    assert bos.begin([0, 0, 5], chat=False) == [0, 0, 5]
    assert not bos.begins([0, 5])


@pytest.mark.parametrize("before", [(), ("<s>",)])
@pytest.mark.parametrize("chat", [False, True])
def test_bos_twice(tmp_path: Path, before: tuple[str, ...], chat: bool) -> None:
    bos = Bos.of(load(write_tokenizer(tmp_path, before=before)))
    assert bos.begin([0, 5], chat) == [0, 5]
    with pytest.raises(InvalidMeasurement, match="two BOS"):
        bos.begin([0, 0, 5], chat)


def test_a_missing_bos_is_no_prompt(tmp_path: Path) -> None:
    bos = Bos.of(load(write_tokenizer(tmp_path)))
    bos.check([5], chat=True)
    with pytest.raises(InvalidMeasurement, match="lacks the BOS"):
        bos.check([5], chat=False)
