from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from qpipe.config import Config, Release, Scheme, Serve, load_config, load_yaml
from qpipe.errors import ConfigError, Fault
from qpipe.paths import Workspace
from tests.workspace_fixture import REPO, release_body, write_workspace

SCHEMES = sorted(path.stem for path in (REPO / "configs" / "schemes").glob("*.yaml"))
EXAMPLES = sorted((REPO / "configs" / "examples").glob("*.yaml"))


def load(root: Path, **changes: Any) -> Config:
    return load_config(write_workspace(root, release_body(**changes)))


def faults_of(root: Path, **changes: Any) -> dict[str, Fault]:
    """Faults by key."""
    with pytest.raises(ConfigError) as caught:
        load(root, **changes)
    found = {fault.key: fault for fault in caught.value.faults}
    assert len(found) == len(caught.value.faults)
    assert all(fault.file and fault.message and fault.mend for fault in caught.value.faults)
    return found


def test_sound_workspace(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.release.names == ["bf16", "gptq", "fp8", "kv", "gptq-mixed"]
    assert set(config.schemes) == {"gptq-w4a16", "fp8-block", "kv-fp8"}
    assert config.scheme_of("bf16") is None
    assert config.scheme_of("gptq-mixed") is config.schemes["gptq-w4a16"]
    assert config.suite_files["mine"] == tmp_path / "evalsets" / "business" / "mine.yaml"


def test_checked_in_release_loads() -> None:
    config = load_config(Workspace(REPO))
    assert set(config.schemes) <= set(SCHEMES)
    assert config.suites


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_checked_in_examples_load(tmp_path: Path, path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "release.yaml").write_text(path.read_text())
    (tmp_path / "configs" / "schemes").symlink_to(REPO / "configs" / "schemes")
    for folder in ("calib", "evalsets"):
        (tmp_path / folder).symlink_to(REPO / folder)
    load_config(Workspace(tmp_path))


@pytest.mark.parametrize("name", SCHEMES)
def test_checked_in_schemes_load(name: str) -> None:
    path = REPO / "configs" / "schemes" / f"{name}.yaml"
    assert load_yaml(path, REPO, Scheme).title
    assert f"scheme: {name}}}" in path.read_text().splitlines()[0]


def test_every_fault_in_one_error(tmp_path: Path) -> None:
    found = faults_of(
        tmp_path,
        variants={
            "gptq": {"scheme": "gptq-w4a61"},
            "fp8": {"scheme": "fp8-block", "serv": {}},
        },
        calibration={"mix": "calib/none.yaml", "samples": -1},
        fidelity={"texts": "evalsets/nowhere"},
        evaluation={"suites": ["mine", "theirs"], "data_dir": "data", "concurency": 4},
        bench={"input_tokens": "many"},
        nmae="small",
    )
    assert {fault.file for fault in found.values()} == {"configs/release.yaml"}
    said = {key: (fault.message, fault.mend) for key, fault in found.items()}
    assert said["variants.gptq.scheme"] == (
        "there is no scheme 'gptq-w4a61'", "did you mean 'gptq-w4a16'?"
    )  # fmt: skip
    assert said["variants.fp8.serv"] == ("unknown key", "did you mean 'serve'?")
    assert said["evaluation.concurency"] == ("unknown key", "did you mean 'concurrency'?")
    assert said["nmae"] == ("unknown key", "did you mean 'name'?")
    assert said["evaluation.suites.1"] == ("there is no suite 'theirs'", "one of: mine")
    assert said["calibration.samples"][0] == "Input should be greater than 0"
    assert "-1" in said["calibration.samples"][1]
    assert "'many'" in said["bench.input_tokens"][1]
    for key, path in (
        ("calibration.mix", "calib/none.yaml"),
        ("fidelity.texts", "evalsets/nowhere"),
        ("evaluation.data_dir", "data"),
    ):
        assert said[key] == (f"{path} does not exist", "correct the path")
    assert len(said) == 10


def test_faults_of_schemes_and_suites_name_their_files(tmp_path: Path) -> None:
    workspace = write_workspace(
        tmp_path,
        release_body(variants={"one": {"scheme": "mad"}, "two": {"scheme": "mad"}}, sensitivity={}, fallback={}),
    )  # fmt: skip
    (tmp_path / "configs" / "schemes" / "mad.yaml").write_text(
        "{title: x, steps: [{method: gptk}], weights: {num_bits: 4, type: int, strategy: group}, "
        "arithmetic: {weights: int4}}"
    )
    (tmp_path / "evalsets" / "business" / "mine.yaml").write_text(
        "{kind: business, files: {business: gone.jsonl, math: math.jsonl}, max_tokens: 0}"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(workspace)
    # A scheme file used twice is read, and its faults told, once.
    assert sorted((fault.file, fault.key) for fault in caught.value.faults) == [
        ("configs/schemes/mad.yaml", "arithmetic.activations"),
        ("configs/schemes/mad.yaml", "steps.0.method"),
        ("configs/schemes/mad.yaml", "weights"),
        ("evalsets/business/mine.yaml", "max_tokens"),
    ]


def test_missing_rows_of_a_suite(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path, release_body())
    (tmp_path / "evalsets" / "business" / "math.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"mine\.yaml: files\.math: math\.jsonl does not exist"):
        load_config(workspace)


def test_missing_file_of_a_suites_scorer(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path, release_body())
    suite = tmp_path / "evalsets" / "business" / "mine.yaml"
    suite.write_text("{kind: business, files: {math: math.jsonl}, scorers: {s: gone.py:f}}")
    with pytest.raises(ConfigError, match=r"mine\.yaml: scorers\.s: gone\.py does not exist"):
        load_config(workspace)
    suite.write_text("{kind: business, files: {math: math.jsonl}, scorers: {s: gone.py}}")
    with pytest.raises(ConfigError, match=r"scorers\.s: a function is named FILE\.py:FUNCTION"):
        load_config(workspace)


def test_faults_of_a_public_suite(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path, release_body(evaluation={"suites": ["public"]}))
    suite = tmp_path / "evalsets" / "public" / "public.yaml"
    suite.parent.mkdir()
    tasks = {
        "mmlu": {"category": "k", "data_files": {"dev": "dev.csv", "test": "test.txt"}},
        "gsm8k": {"category": "m", "rows": "rows.py:gsm8k"},
        "arc_easy": {"category": "k", "rows": "rows.py", "data_files": "arc.txt"},
    }
    suite.write_text(yaml.safe_dump({"kind": "public", "tasks": tasks}))
    with pytest.raises(ConfigError) as caught:
        load_config(workspace)
    found = {fault.key: fault for fault in caught.value.faults}
    assert found["tasks.mmlu.data_files"].message == "test.txt is not read as it is"
    assert "`rows`" in found["tasks.mmlu.data_files"].mend
    assert found["tasks.gsm8k"].message == "there are no files to read"
    assert "FILE.py:FUNCTION" in found["tasks.arc_easy.rows"].message

    del tasks["mmlu"], tasks["arc_easy"]
    tasks["gsm8k"]["data_files"] = "gsm8k.txt"
    suite.write_text(yaml.safe_dump({"kind": "public", "tasks": tasks}))
    gone = r"public\.yaml: tasks\.gsm8k\.rows: rows\.py does not exist"
    with pytest.raises(ConfigError, match=gone):
        load_config(workspace)


def test_names_that_are_words_of_the_loader_stay_in_keys(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"variants": {"public": {"scheme": "kv-fp8", "serve": {"dtype": "int8"}}}}  # fmt: skip
    found = faults_of(tmp_path, **changes, sensitivity={}, fallback={})
    assert list(found) == ["variants.public.serve.dtype"]


@pytest.mark.parametrize("name", ["a.b", "A", "-a", "a b", ""])
def test_dotted_and_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    variants = {name: {"scheme": "kv-fp8"}}
    found = faults_of(tmp_path, variants=variants, sensitivity={}, fallback={})
    (fault,) = found.values()
    assert fault.key == f"variants.{name}"
    assert "lower-case letters" in fault.message


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"sensitivity": {}}, ["fallback.gptq-mixed.source"]),
        ({"sensitivity": {"gptq": {}, "no": {}}}, ["sensitivity.no"]),
        ({"variants": {"bf16": {"scheme": "kv-fp8"}, "gptq": {"scheme": "gptq-w4a16"}}}, ["variants.bf16"]),
        ({"fallback": {"gptq": {"source": "gptq", "restore_units": 1}}}, ["fallback.gptq"]),
        # Other faults hide none of them.
        (
            {"nmae": 1, "sensitivity": {"gptq": {"samples": 0}, "no": {}}},
            ["nmae", "sensitivity.gptq.samples", "sensitivity.no"],
        ),
    ],
)  # fmt: skip
def test_names_must_meet(tmp_path: Path, changes: dict[str, Any], keys: list[str]) -> None:
    assert sorted(faults_of(tmp_path, **changes)) == keys


@pytest.mark.parametrize(
    "source", ["SmolLM2", "ftp:x", "hub:org/name", "package:dist/file.gguf", "package:dist==1", "path:"]
)  # fmt: skip
def test_model_source_is_pinned(tmp_path: Path, source: str) -> None:
    assert list(faults_of(tmp_path, model={"source": source})) == ["model.source"]


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_limits_are_finite(tmp_path: Path, number: float) -> None:
    assert list(faults_of(tmp_path, gate={"kl_mean_max": number})) == ["gate.kl_mean_max"]


def test_files_that_are_no_yaml(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(ConfigError, match=r"release\.yaml: -: the file does not exist"):
        load_config(workspace)
    workspace.release.parent.mkdir()
    for content in (b"a: [", b"\xff\xfe"):
        workspace.release.write_bytes(content)
        with pytest.raises(ConfigError, match="not YAML"):
            load_config(workspace)
    workspace.release.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"release\.yaml: -: "):
        load_config(workspace)
    workspace.release.unlink()
    workspace.release.mkdir()
    with pytest.raises(ConfigError, match=r"release\.yaml: -: cannot be read: Is a directory"):
        load_config(workspace)


def test_serve_over() -> None:
    base = Serve(
        max_model_len=2048, enforce_eager=True, args={"seed": 1, "load-format": 2}, env={"X": "1"}
    )
    mine = Serve(max_model_len=512, enforce_eager=False, args={"load-format": 3}, env={"Y": "2"})
    merged = mine.over(base)
    assert (merged.max_model_len, merged.enforce_eager, merged.max_num_seqs) == (512, False, None)
    assert merged.args == {"seed": 1, "load-format": 3}
    assert merged.env == {"X": "1", "Y": "2"}
    assert Serve().over(base) == base
    assert base.over(Serve()) == base


def test_serve_of() -> None:
    release = Release.model_validate(
        release_body(
            serve={"max_model_len": 1024, "max_num_seqs": 8},
            baseline={"serve": {"max_num_seqs": 2}},
            variants={"gptq": {"scheme": "gptq-w4a16", "serve": {"max_model_len": 512}}},
            fallback={
                "mixed": {"source": "gptq", "restore_units": 1, "serve": {"max_num_seqs": 4}}
            },
        )
    )
    sizes = {
        name: (release.serve_of(name).max_model_len, release.serve_of(name).max_num_seqs)
        for name in release.names
    }
    assert sizes == {"bf16": (1024, 2), "gptq": (512, 8), "mixed": (512, 4)}


def test_devices_of_schemes() -> None:
    release = Release.model_validate(
        release_body(
            serve={"tensor_parallel_size": 2},
            variants={
                "small": {"scheme": "a", "serve": {"tensor_parallel_size": 1}},
                "large": {"scheme": "a", "serve": {"tensor_parallel_size": 4}},
                "other": {"scheme": "b"},
            },
            sensitivity={},
            fallback={
                "mixed": {"source": "other", "restore_units": 1}
                | {"serve": {"tensor_parallel_size": 8}}
            },
        )
    )
    assert release.devices == {"a": 4, "b": 8}


@pytest.mark.parametrize(
    "weights",
    [
        {"strategy": "group"},
        {"strategy": "channel", "group_size": 64},
        {"strategy": "block"},
        {"strategy": "block", "block_structure": [64]},
        {"strategy": "tensor", "block_structure": [64, 64]},
    ],
)
def test_sizes_go_with_the_strategy(tmp_path: Path, weights: dict[str, Any]) -> None:
    path = tmp_path / "scheme.yaml"
    body = {"num_bits": 4, "type": "int", **weights}
    path.write_text(f"{{title: x, steps: [{{method: rtn}}], weights: {body}, arithmetic: {{weights: int4, activations: bf16}}}}")  # fmt: skip
    with pytest.raises(ConfigError, match="weights"):
        load_yaml(path, tmp_path, Scheme)


def test_scheme_must_quantize_something(tmp_path: Path) -> None:
    path = tmp_path / "scheme.yaml"
    path.write_text("{title: x, steps: [{method: rtn}], arithmetic: {weights: bf16, activations: bf16}}")  # fmt: skip
    with pytest.raises(ConfigError, match="quantizes weights, activations or the KV cache"):
        load_yaml(path, tmp_path, Scheme)


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 64}
INT8 = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}
FP8_KV = {"num_bits": 8, "type": "float", "strategy": "tensor"}


def steps(*methods: str) -> dict[str, Any]:
    return {"steps": [{"method": method} for method in methods]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (steps(), "`steps` is empty"),
        (steps("smoothquant"), "the last step must round"),
        (steps("awq"), "the last step must round"),
        ({**steps("smoothquant", "rtn")}, "there are no `activations`"),
        ({**steps("gptq"), "calibrated": False}, "`calibrated` must be true"),
        ({"weights": None, "activations": INT8}, "need `weights`"),
        ({**steps("gptq"), "weights": None, "kv_cache": FP8_KV}, "need `weights`"),
        ({"weights": {**INT4, "actorder": "static"}}, "there is no gptq step"),
        ({"weights": {**INT4, "dynamic": True}}, "`weights.dynamic` must be false"),
        ({"weights": {**INT8, "num_bits": 4}}, "weights cannot have a scale a token"),
        ({"weights": {**INT4, "type": "float", "symmetric": False}}, "no zero points"),
        (
            {
                "weights": {
                    "num_bits": 4,
                    "type": "int",
                    "strategy": "block",
                    "block_structure": [64, 64],
                }
            },
            "blocks are for float weights",
        ),
        ({"activations": {**INT8, "dynamic": False}}, "`activations.dynamic` must be true"),
        ({"activations": {**INT8, "strategy": "channel"}}, "a scale a channel: tokens differ"),
        ({"activations": {**INT8, "actorder": "static"}}, "columns of weights are ordered"),
        (
            {"activations": {**FP8_KV}, "calibrated": False},
            "static activation scales come from calibration",
        ),
        ({"kv_cache": {**FP8_KV, "strategy": "channel"}}, "calibrated scales is 8-bit float"),
        ({"kv_cache": {**FP8_KV, "strategy": "token_head"}}, "calibrated scales is 8-bit float"),
        ({"kv_cache": {**FP8_KV, "type": "int"}}, "calibrated scales is 8-bit float"),
        ({"kv_cache": FP8_KV, "kv_cache_dtype": "fp9"}, "`kv_cache_dtype` fp9 is unknown"),
        (
            {"kv_cache": FP8_KV, "kv_cache_dtype": "int4_per_token_head"},
            "int4_per_token_head is 4-bit int, a scale a token_head",
        ),
        (
            {"activations": {**INT8, "strategy": "token_head"}},
            "a scale a token_head: tokens differ",
        ),
        (
            {"weights": {**INT4, "type": "float"}},
            "4-bit float weights are NVFP4's (tensor_group of 16) or MXFP4's",
        ),
        (
            {"arithmetic": {"weights": "fp8", "activations": "bf16"}},
            "`arithmetic.weights` is fp8; the scheme's weights are int4",
        ),
        ({"kv_cache": FP8_KV, "calibrated": False}, "KV scales come from calibration"),
        ({"kv_cache_dtype": "fp8"}, "say how under `kv_cache`"),
        ({"engine_activations": True}, "`engine_activations` without `activations`"),
        (
            {"weights": None, "kv_cache": FP8_KV, "kv_cache_dtype": "fp8"},
            "`steps` must be empty",
        ),
        ({"backend": "autoawq"}, "AutoAWQ takes one step, awq"),
        (
            {"backend": "autoawq", **steps("awq"), "activations": INT8},
            "AutoAWQ quantizes weights only",
        ),
        (
            {"backend": "autoawq", **steps("awq"), "weights": {**INT8, "strategy": "channel"}},
            "4-bit integer weights in groups",
        ),
        ({"weights": {**INT4, "num_bits": 8}}, "`arithmetic.weights` is int4"),
        ({"kv_cache": FP8_KV}, "`arithmetic.kv` is bf16"),
    ],
)
def test_combinations_that_cannot_be(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """Each is named when the file is read, not after hours."""
    sound = {
        "title": "x",
        "weights": INT4,
        "arithmetic": {"weights": "int4", "activations": "bf16"},
        **steps("rtn"),
    }
    path = tmp_path / "scheme.yaml"
    path.write_text(yaml.safe_dump(sound))
    load_yaml(path, tmp_path, Scheme)
    path.write_text(yaml.safe_dump({**sound, **changes}))
    with pytest.raises(ConfigError) as caught:
        load_yaml(path, tmp_path, Scheme)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("flag", "mend"),
    [
        ("dtype", "set `serve.dtype` instead"),
        ("max-model-len", "set `serve.max_model_len` instead"),
        ("kv_cache_dtype", "set `serve.kv_cache_dtype` instead"),
        ("no-enforce-eager", "set `serve.enforce_eager` instead"),
        ("enable-prefix-caching", "set `serve.prefix_caching` instead"),
        ("--port=8000", "set `serve.port` instead"),
        ("max-model", "set `serve.max_model_len` instead"),  # the engine takes abbreviations
        ("trust-remote-code", "set `model.trust_remote_code` instead"),
        ("model", "set `model.source` instead"),
        ("served-model-name", "remove it"),
        ("tokenizer", "remove it"),
        ("host", "remove it"),
    ],
)
def test_flags_that_shadow_a_setting(tmp_path: Path, flag: str, mend: str) -> None:
    variants = {"gptq": {"scheme": "gptq-w4a16", "serve": {"args": {flag: 1, "seed": 7}}}}
    found = faults_of(tmp_path, variants=variants)
    assert {key: fault.mend for key, fault in found.items()} == {
        f"variants.gptq.serve.args.{flag}": mend
    }


@pytest.mark.parametrize("flag", ["model-impl", "tokenizer-mode", "no-async-scheduling", "seed"])
def test_other_flags_are_free(flag: str) -> None:
    assert Serve(args={flag: True}).args == {flag: True}


@pytest.mark.parametrize("seed", [-1, 2**31])
def test_seeds_that_numpy_refuses(tmp_path: Path, seed: int) -> None:
    assert list(faults_of(tmp_path, bench={"seed": seed})) == ["bench.seed"]


def test_a_key_stands_once(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path, release_body())
    text = workspace.release.read_text()
    workspace.release.write_text(
        "gate: {kl_mean_max: 9.0}\n" + yaml.safe_dump(yaml.safe_load(text))
    )
    with pytest.raises(ConfigError, match="the key 'gate' stands twice"):
        load_config(workspace)


def test_merge_keys_may_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")
    assert load_yaml(path, tmp_path, dict)["b"] == {"x": 3, "y": 2}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"gate": {"kl_mean_max": True}}, "gate.kl_mean_max"),
        ({"calibration": {"samples": True}}, "calibration.samples"),
        ({"gate": {"accuracy_decides": 1}}, "gate.accuracy_decides"),
    ],
)
def test_yes_is_no_number(tmp_path: Path, changes: dict[str, Any], key: str) -> None:
    assert list(faults_of(tmp_path, **changes)) == [key]


def test_a_release_has_a_variant(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"variants": {}, "sensitivity": {}, "fallback": {}}
    assert list(faults_of(tmp_path, **changes)) == ["variants"]


@pytest.mark.parametrize("source", ["package:x==1/y", "hub:org/name", "ready", "path:"])
def test_checkpoints_that_are_no_source(tmp_path: Path, source: str) -> None:
    variants = {"v": {"scheme": "gptq-w4a16", "checkpoint": source}}
    body = release_body(variants=variants, sensitivity={}, fallback={})
    with pytest.raises(ConfigError) as caught:
        load_config(write_workspace(tmp_path, body))
    (fault,) = caught.value.faults
    assert fault.key == "variants.v.checkpoint"
    assert "hub:ORG/NAME@REVISION" in fault.message


def test_a_ready_made_checkpoint_has_no_fallback(tmp_path: Path) -> None:
    variants = {"gptq": {"scheme": "gptq-w4a16", "checkpoint": "path:ready"}}
    with pytest.raises(ConfigError, match="'gptq' is a ready-made checkpoint"):
        load_config(write_workspace(tmp_path, release_body(variants=variants)))


def test_only_a_ready_made_checkpoint_was_trained(tmp_path: Path) -> None:
    entry = {"scheme": "gptq-w4a16", "trained": True}
    sections: dict[str, Any] = {"sensitivity": {}, "fallback": {}}
    made = release_body(variants={"v": entry}, **sections)
    with pytest.raises(ConfigError) as caught:
        load_config(write_workspace(tmp_path, made))
    (fault,) = caught.value.faults
    assert (fault.key, fault.mend) == ("variants.v.trained", "remove it")
    ready = release_body(variants={"v": {**entry, "checkpoint": "path:ready"}}, **sections)
    assert load_config(write_workspace(tmp_path, ready)).release.variants["v"].trained
