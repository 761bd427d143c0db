from __future__ import annotations

import json
from pathlib import Path

import pytest

from qpipe.errors import ConfigError
from qpipe.model import describe, linears, require_checkpoint
from tests.workspace_fixture import write_checkpoint, write_safetensors


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        require_checkpoint(folder, "model.source")
    assert {fault.key for fault in caught.value.faults} == {"model.source"}
    return [fault.message for fault in caught.value.faults]


def test_sound_folder(tmp_path: Path) -> None:
    require_checkpoint(write_checkpoint(tmp_path), "model.source")
    (tmp_path / "tokenizer.json").rename(tmp_path / "tokenizer.model")
    require_checkpoint(tmp_path, "model.source")


def test_no_tokenizer(tmp_path: Path) -> None:
    (write_checkpoint(tmp_path) / "tokenizer.json").unlink()
    assert faults_of(tmp_path) == ["there is no tokenizer"]


def test_pickle_only(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    (message,) = faults_of(tmp_path)
    assert "pytorch_model.bin" in message and "run code" in message


def test_all_faults_at_once(tmp_path: Path) -> None:
    assert len(faults_of(tmp_path)) == 3
    (tmp_path / "weights.pt").write_text("")
    (tmp_path / "config.json").write_text("{}")
    pickle, tokenizer = faults_of(tmp_path)
    assert "only pickle weights" in pickle and "tokenizer" in tokenizer


def test_describe(tmp_path: Path) -> None:
    found = describe(write_checkpoint(tmp_path))
    values = 32 * 128 + 128 * 128 + 64 * 128 + 128 * 192 + 128 + 32 * 128
    assert found["shapes"]["model.layers.0.mlp.down_proj.weight"] == [128, 192]
    assert (len(found["shapes"]), found["stored_values"]) == (6, values)
    assert found["weights_gib"] == round(values * 2 / 2**30, 4)
    assert found["config"] == {"num_hidden_layers": 1}
    assert set(found["files"]) == {"config.json", "model.safetensors", "tokenizer.json"}
    assert not found["has_chat_template"]


def test_hashes_see_what_they_name(tmp_path: Path) -> None:
    first = describe(write_checkpoint(tmp_path))
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "README.md").write_text("hello")
    assert describe(tmp_path)["checkpoint_hash"] == first["checkpoint_hash"]

    template = {"chat_template": "{{ messages }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(template))
    second = describe(tmp_path)
    assert second["has_chat_template"]
    assert second["chat_template_hash"] != first["chat_template_hash"]
    assert second["tokenizer_hash"] != first["tokenizer_hash"]
    assert second["checkpoint_hash"] == first["checkpoint_hash"]

    (tmp_path / "chat_template.jinja").write_text("other")
    assert describe(tmp_path)["chat_template_hash"] != second["chat_template_hash"]

    (tmp_path / "config.json").write_text('{"num_hidden_layers": 2}')
    third = describe(tmp_path)
    assert third["checkpoint_hash"] != first["checkpoint_hash"]
    write_safetensors(tmp_path / "model.safetensors", {"x": (1,)})
    assert describe(tmp_path)["checkpoint_hash"] != third["checkpoint_hash"]


def test_linears_are_the_projections_of_the_blocks(tmp_path: Path) -> None:
    found = linears(write_checkpoint(tmp_path))
    assert [(m.name.split(".", 2)[2], m.out_features, m.in_features) for m in found] == [
        ("0.mlp.down_proj", 128, 192),
        ("0.self_attn.k_proj", 64, 128),
        ("0.self_attn.q_proj", 128, 128),
    ]


def test_shards_are_read_together(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model-1.safetensors", {"a.q_proj.weight": (2, 4)})
    write_safetensors(tmp_path / "model-2.safetensors", {"a.k_proj.weight": (2, 4)})
    assert [m.name for m in linears(tmp_path)] == ["a.k_proj", "a.q_proj"]


def test_quantized_model_is_refused(tmp_path: Path) -> None:
    config = write_checkpoint(tmp_path) / "config.json"
    config.write_text(json.dumps({"quantization_config": {"quant_method": "fp8"}}))
    (message,) = faults_of(tmp_path)
    assert "quantized already" in message


@pytest.mark.parametrize(("dtype", "said"), [("F32", "float32"), ("F64", "float64")])
def test_wide_weights_are_refused(tmp_path: Path, dtype: str, said: str) -> None:
    weights = write_checkpoint(tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b'"BF16"', f'"{dtype}" '.encode()))
    with pytest.raises(ConfigError, match=f"the weights are {said}") as caught:
        require_checkpoint(tmp_path, "model.source")
    assert "save the model in bfloat16 first" in caught.value.faults[0].mend


def test_a_few_wide_tensors_are_no_fault(tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b'"BF16"', b'"F32" ', 1))
    require_checkpoint(tmp_path, "model.source")


def write_index(folder: Path, *names: str) -> None:
    weight_map = {f"tensor{i}": name for i, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_only_the_index_counts(tmp_path: Path) -> None:
    alone = describe(write_checkpoint(tmp_path))
    (tmp_path / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    write_safetensors(tmp_path / "adapter.safetensors", {"b.q_proj.weight": (2, 4)})
    write_index(tmp_path, "model-1.safetensors")
    require_checkpoint(tmp_path, "model.source")
    found = describe(tmp_path)
    assert (found["shapes"], found["weights_gib"]) == (alone["shapes"], alone["weights_gib"])


def test_index_of_a_missing_file(tmp_path: Path) -> None:
    write_index(write_checkpoint(tmp_path), "model.safetensors", "model-2.safetensors")
    (message,) = faults_of(tmp_path)
    assert "names model-2.safetensors, which is not there" in message


def test_second_copy_of_the_weights_does_not_count(tmp_path: Path) -> None:
    alone = describe(write_checkpoint(tmp_path))["stored_values"]
    write_safetensors(tmp_path / "consolidated.safetensors", {"layers.0.wq.weight": (2, 4)})
    assert describe(tmp_path)["stored_values"] == alone
    (tmp_path / "model.safetensors").unlink()
    assert faults_of(tmp_path) == ["there are no *.safetensors files"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "{"),
        ("model.safetensors", "version https://git-lfs.github.com/spec/v1"),
        ("model.safetensors", ""),
        ("model.safetensors.index.json", "{}"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: str) -> None:
    (write_checkpoint(tmp_path) / name).write_text(content)
    (message,) = faults_of(tmp_path)
    assert message.startswith("a file is damaged: ")


@pytest.mark.parametrize("change", [-2, 2])
def test_file_of_another_length(tmp_path: Path, change: int) -> None:
    """A download that broke off, or two at once: found before anything is copied."""
    folder = write_checkpoint(tmp_path / "model")
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(ConfigError, match="not as long as its header says"):
        require_checkpoint(folder, "model.source")
