from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from qpipe.errors import ConfigError, Fault
from qpipe.evalset import check_evalsets
from qpipe.validate import validate
from tests.evalset.conftest import row

if TYPE_CHECKING:
    from tests.evalset.conftest import Write

SENTENCE = "the quick brown fox jumps over the lazy dog while seven grey geese fly south"
ROWS = "evalsets/business/math.jsonl"
CHAT = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}{% for m in messages %}<u>{{ m.content }}</u>{% endfor %}"


def faults(config: object, name: str | None = None) -> list[Fault]:
    with pytest.raises(ConfigError) as caught:
        check_evalsets(config, name)  # type: ignore[arg-type]
    return list(caught.value.faults)


@pytest.fixture
def with_model(workspace: object, tokenizer_dir: Path) -> Path:
    """One token a byte, after a BOS."""
    model: Path = workspace.model  # type: ignore[attr-defined]
    shutil.copytree(tokenizer_dir, model)
    return model


def test_sound_rows(write: Write) -> None:
    config = write([row(1, "1 + 1 ="), row(2, "3 - 1 =")])
    assert check_evalsets(config) == check_evalsets(config, "mine") == {"mine": 2}


def test_all_faults_come_together(write: Write) -> None:
    config = write(
        [
            row(1, "What is one and one?"),
            row(2, "What is one and one?"),
            row(3, "what  is one and one"),
            row(4, "x", reference=" ", scorer="regex"),
            row(5, "y", referense=3),
            row(6, f"Count: {SENTENCE}"),
            row(7, f"Held {SENTENCE.upper()}"),
        ],
        {
            "calib/a.txt": f"Long ago {SENTENCE}.\n---\nother",
            "evalsets/heldout/prose.txt": f"One.\n\n{SENTENCE}",
        },
    )
    found = faults(config)
    assert [(fault.file, fault.key) for fault in found] == [
        (f"{ROWS}:5", "referense"),
        (f"{ROWS}:2", "prompt"),
        (f"{ROWS}:3", "prompt"),
        (f"{ROWS}:6", "prompt"),
        (f"{ROWS}:7", "prompt"),
        ("evalsets/heldout/prose.txt", "paragraph 2"),
        (f"{ROWS}:6", "prompt"),
        (f"{ROWS}:7", "prompt"),
    ]
    said = "\n".join(str(fault) for fault in found)
    assert "did you mean 'reference'?" in said
    assert f"the same question as {ROWS}:1" in said
    assert f"but for case, spaces or punctuation the same question as {ROWS}:1" in said
    assert "stands in the calibration text too: calib/a.txt" in said
    assert "stands in the held-out text too: evalsets/heldout/prose.txt, paragraph 2" in said
    assert all(fault.mend for fault in found)


def test_held_out_text_copied_into_the_mix(write: Write) -> None:
    held_out = f"{SENTENCE}.\n\n小明昨天在图书馆借了三本关于中国历史的厚书准备周末读完。\n\nA short one stays."
    chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": held_out}]
    config = write(
        [row(1, "1 + 1 =")],
        {
            "evalsets/heldout/prose.txt": held_out,
            "calib/b.jsonl": json.dumps({"messages": chat}),
            "calib/mix.yaml": "sources: {b: {file: b.jsonl, format: messages, category: c, weight: 1}}",
        },
    )
    assert [(fault.key, "calib/b.jsonl:1" in fault.message) for fault in faults(config)] == [
        ("paragraph 1", True),
        ("paragraph 2", True),
    ]
    with pytest.raises(ConfigError, match="paragraph 1"):
        validate(config)


def test_faults_of_what_is_compared_come_too(write: Write) -> None:
    config = write([row(1, "1 + 1 =")], {"calib/a.txt": "", "evalsets/heldout/prose.txt": " "})
    assert [fault.file for fault in faults(config)] == [
        "evalsets/heldout/prose.txt",
        "calib/mix.yaml",
    ]


def test_own_scorers_are_loaded(write: Write) -> None:
    suite = "{kind: business, files: {math: math.jsonl}, scorers: {mine: own.py:judge}}"
    files = {"evalsets/business/mine.yaml": suite, "evalsets/business/own.py": "x = 1"}
    config = write([row(1, "1 + 1 =", scorer="mine"), row(2, "2", scorer="min")], files)
    found = faults(config)
    assert [fault.key for fault in found] == ["scorer", "scorers.mine"]
    assert "there is no function 'judge'" in found[1].message
    assert found[0].mend == "did you mean 'mine'?"


def test_readers_of_public_sets_are_loaded(write: Write) -> None:
    task = "{category: knowledge, rows: rows.py:arc, data_files: arc.txt}"
    files = {
        "evalsets/public/sets.yaml": f"{{kind: public, tasks: {{arc_easy: {task}}}}}",
        "evalsets/public/rows.py": "def arc(path): return []",
    }
    config = write([row(1, "1 + 1 =")], files, evaluation={"suites": ["mine", "sets"]})
    with pytest.raises(ConfigError) as caught:
        validate(config)
    fault = next(one for one in caught.value.faults if one.key == "tasks.arc_easy.rows")
    assert fault.file == "evalsets/public/sets.yaml"
    assert "def arc(path: Path, name: str)" in fault.mend


@pytest.mark.parametrize("chat", [False, True])
def test_rows_longer_than_the_context(write: Write, with_model: Path, chat: bool) -> None:
    suite = f"{{kind: business, files: {{math: math.jsonl}}, chat: {str(chat).lower()}, max_tokens: 10}}"
    (with_model / "chat_template.jinja").write_text(CHAT)
    # This template writes no BOS; before a plain text the tokenizer sets one.
    around = len("<u></u>") if chat else 1
    fits = 50 - 10 - around
    rows = [
        row(1, "x" * fits),
        row(2, "y" * (fits + 1)),
        row(3, "z" * (fits + 1), max_tokens=9),
        row(4, "u" * (fits + 1), scorer="choice", choices=["a" * 9, "b"], reference=0),
        row(5, "v" * (fits + 1), scorer="choice", choices=["a" * 8, "b"], reference=0),
    ]
    config = write(
        rows,
        {"evalsets/business/mine.yaml": suite},
        serve={"max_model_len": 50},
        baseline={"serve": {"max_model_len": 64}},
    )
    found = faults(config)
    assert [fault.file for fault in found] == [f"{ROWS}:2", f"{ROWS}:4"]
    assert "41 tokens, and 10 for the answer, are beyond the context of gptq, fp8, kv, gptq-mixed (50)" in found[0].message  # fmt: skip


def test_a_conversation_that_the_template_refuses(write: Write, with_model: Path) -> None:
    (with_model / "chat_template.jinja").write_text(CHAT)
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
    config = write([row(1, "1 + 1 ="), {**row(2, ""), "prompt": None, "messages": messages}])
    (fault,) = faults(config)
    assert (fault.file, fault.key) == (f"{ROWS}:2", "messages")
    assert "no system" in fault.message


def test_a_chat_without_a_template(write: Write, with_model: Path) -> None:
    (with_model / "chat_template.jinja").unlink(missing_ok=True)
    settings = json.loads((with_model / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (with_model / "tokenizer_config.json").write_text(json.dumps(settings))
    (fault,) = faults(write([row(1, "1 + 1 =")]))
    assert (fault.file, fault.key, fault.mend) == (
        "evalsets/business/mine.yaml",
        "chat",
        "set `chat: false`",
    )


def test_a_broken_tokenizer(write: Write, with_model: Path) -> None:
    (with_model / "tokenizer.json").write_text("{}")
    (fault,) = faults(write([row(1, "1 + 1 =")]))
    assert (fault.file, fault.mend) == ("out/model", "run `qpipe model` again")


def test_a_suite_that_the_release_does_not_ask(write: Write) -> None:
    more = "{kind: business, files: {math: more.jsonl}}"
    lines = json.dumps(row(1, "1 + 1 =")) + "\n" + json.dumps(row(1, "2"))
    files = {"evalsets/business/more.yaml": more, "evalsets/business/more.jsonl": lines}
    config = write([row(1, "1 + 1 =")], files)
    assert check_evalsets(config, "mine") == {"mine": 1}
    for name in (None, "more"):
        (fault,) = faults(config, name)
        assert (fault.file, fault.key) == ("evalsets/business/more.jsonl:2", "id")


def test_a_faulty_suite_file_hides_no_other_fault(write: Write) -> None:
    config = write(
        [row(1, "1 + 1 ="), row(2, "1 + 1 =")], {"evalsets/business/more.yaml": "kind: 1"}
    )
    assert [fault.file for fault in faults(config)] == [
        "evalsets/business/more.yaml",
        "evalsets/business/more.yaml",
        f"{ROWS}:2",
    ]


def test_an_unknown_suite(write: Write) -> None:
    (fault,) = faults(write([row(1, "1 + 1 =")]), "mien")
    assert fault.mend == "did you mean 'mine'?"


def test_two_thousand_rows_are_fast(write: Write, with_model: Path) -> None:
    from transformers import AutoTokenizer  # its import is not what is timed  # noqa: F401

    (with_model / "chat_template.jinja").write_text(CHAT)
    rows = [row(n, " ".join(f"w{n}x{k}" for k in range(60))) for n in range(2000)]
    config = write(rows)
    started = time.process_time()
    check_evalsets(config)
    assert time.process_time() - started < 10  # quadratic work takes minutes
