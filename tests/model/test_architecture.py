from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qpipe.model import Architecture, architecture, linears
from tests.smollm2 import SMOLLM2
from tests.workspace_fixture import write_checkpoint


def read(folder: Path, **config: Any) -> Architecture:
    write_checkpoint(folder)
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": 1, **config}))
    return architecture(folder)


def test_sizes(tmp_path: Path) -> None:
    found = read(tmp_path, hidden_size=128, num_attention_heads=4, num_key_value_heads=2)
    assert (found.layers, found.hidden, found.vocabulary) == (1, 128, 32)
    assert (found.heads, found.kv_heads, found.head_dim) == (4, 2, 32)
    assert list(found.linears) == linears(tmp_path)
    assert found.values == 32 * 128 * 2 + 128 * 128 + 64 * 128 + 128 * 192 + 128


def test_what_the_config_does_not_say(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.hidden, found.heads, found.kv_heads, found.head_dim) == (128, None, None, None)
    assert found.kv_bytes(16) is None


def test_every_query_head_has_its_keys_unless_said(tmp_path: Path) -> None:
    assert read(tmp_path, hidden_size=128, num_attention_heads=4).kv_heads == 4


def test_latent_attention_has_no_key_value_heads(tmp_path: Path) -> None:
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 64}
    assert read(tmp_path, **sizes).kv_bytes(16) is None


def test_the_text_part_of_a_model_that_sees(tmp_path: Path) -> None:
    text = {"num_hidden_layers": 7, "hidden_size": 64, "num_attention_heads": 2}
    found = read(tmp_path, text_config=text)
    assert (found.layers, found.hidden, found.head_dim) == (7, 64, 32)


def test_modules_have_the_head_of_a_tied_model() -> None:
    assert {"lm_head", "model.embed_tokens", "model.norm"} < SMOLLM2.modules


@pytest.mark.parametrize(
    ("bits", "devices", "heads"), [(16, 1, 3), (8, 1, 3), (16, 3, 1), (16, 9, 1)]
)
def test_kv_bytes_a_token(bits: int, devices: int, heads: int) -> None:
    assert SMOLLM2.kv_bytes(bits, devices) == 30 * 2 * heads * 64 * bits / 8
