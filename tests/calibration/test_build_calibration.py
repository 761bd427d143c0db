import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.calibration import build_calibration
from qpipe.calibration._build import chunk
from qpipe.errors import ConfigError, MissingInput
from qpipe.records import SCHEMA_VERSION, digest

TALK = {"messages": [{"role": "user", "content": "hi" * 20}]}


def read_rows(folder):
    return [json.loads(line) for line in (folder / "calib.jsonl").read_text().splitlines()]


def fault_of(*arguments):
    with pytest.raises(ConfigError) as caught:
        build_calibration(*arguments)
    (fault,) = caught.value.faults
    return fault


@given(st.lists(st.integers(0, 99), max_size=200), st.integers(2, 40), st.booleans())
def test_chunks_have_the_exact_length_and_lose_only_the_tail(stream, tokens, bos):
    prefix = [7] if bos else []
    rows, dropped = chunk(stream, tokens, prefix)
    assert all(len(row) == tokens and row[: len(prefix)] == prefix for row in rows)
    kept = [token for row in rows for token in row[len(prefix) :]]
    assert kept == stream[: len(stream) - dropped]
    assert dropped < tokens


@pytest.fixture
def mix(write_mix):
    return write_mix(
        {
            "long": {"file": "long.txt", "weight": 1},
            "short": {"file": "short.txt", "weight": 3, "category": "code"},
            "talk": {"file": "talk.jsonl", "format": "messages", "weight": 1},
        },
        {
            "long.txt": "\n---\n".join(f"document {n} " * 9 for n in range(9)),
            "short.txt": "0123456789" * 5,
            "talk.jsonl": "\n".join([json.dumps(TALK)] * 6),
        },
    )


def test_rows_and_report_agree(mix, tokenizer_dir, tmp_path):
    out = tmp_path / "out"
    report = build_calibration(mix, tokenizer_dir, out, 15, 16, 0)
    rows = read_rows(out)
    assert json.loads((out / "report.json").read_text()) == report
    assert report["schema_version"] == SCHEMA_VERSION
    assert report["hash"] == digest(rows)
    assert len(rows) == 15 == len({row["id"] for row in rows})
    assert {len(row["input_ids"]) for row in rows} == {16}
    for name, source in report["sources"].items():
        mine = [row for row in rows if row["source"] == name]
        assert len(mine) == source["rows_drawn"]
        assert {row["category"] for row in mine} == {source["category"]}
        assert source["tokens"] == source["rows_available"] * 16 + source["dropped_tail_tokens"]
    assert sum(report["rows_by_category"].values()) == 15


def test_a_short_source_is_reported(mix, tokenizer_dir, tmp_path):
    report = build_calibration(mix, tokenizer_dir, tmp_path / "out", 15, 16, 0)
    short = report["sources"]["short"]
    assert (short["rows_asked"], short["rows_drawn"], short["rows_available"]) == (9, 3, 3)
    assert (short["weight_asked"], short["weight_got"]) == (0.6, 0.2)
    assert short["document_tokens"] == {"min": 50, "p50": 50, "max": 50}
    assert report["notes"] == [
        "'short' has 3 of the 9 rows its weight asks for; the other sources gave the rest"
    ]
    assert build_calibration(mix, tokenizer_dir, tmp_path / "out", 4, 16, 0)["notes"] == []


def test_nothing_is_dropped_without_a_word(mix, tokenizer_dir, tmp_path):
    report = build_calibration(mix, tokenizer_dir, tmp_path / "out", 5, 16, 0)
    for source in report["sources"].values():
        assert source["rows_available"] == source["rows_drawn"] + source["rows_not_drawn"]
    # One row of six conversations of 50 tokens and more.
    talk = report["sources"]["talk"]
    assert (talk["rows_drawn"], talk["documents"]) == (1, 6)
    assert talk["documents_not_drawn"] >= 4
    every = sum(source["rows_available"] for source in report["sources"].values())
    report = build_calibration(mix, tokenizer_dir, tmp_path / "out", every, 16, 0)
    for source in report["sources"].values():
        assert (source["rows_not_drawn"], source["documents_not_drawn"]) == (0, 0)


def test_a_source_that_gives_no_row_is_noted(write_mix, tokenizer_dir, tmp_path):
    sources = {
        "tiny": {"file": "t.txt"},
        "light": {"file": "a.txt", "weight": 0.001},
        "a": {"file": "a.txt"},
    }
    mix = write_mix(sources, {"t.txt": "0123", "a.txt": "abcdefgh" * 20})
    notes = build_calibration(mix, tokenizer_dir, tmp_path / "out", 2, 16, 0)["notes"]
    assert "'tiny' gives no row: all its text is shorter than one" in notes
    assert "'light' gives no row: its weight is too small for 2 rows" in notes


def test_the_same_set_is_left_as_it_lies(mix, tokenizer_dir, tmp_path):
    out = tmp_path / "out"
    build_calibration(mix, tokenizer_dir, out, 12, 16, 1)
    before = (out / "calib.jsonl").stat().st_ino
    build_calibration(mix, tokenizer_dir, out, 12, 16, 1)
    assert (out / "calib.jsonl").stat().st_ino == before
    for damage in ("", "{}\n"):
        (out / "calib.jsonl").write_text(damage)
        build_calibration(mix, tokenizer_dir, out, 12, 16, 1)
        assert len(read_rows(out)) == 12
    (out / "report.json").unlink()
    build_calibration(mix, tokenizer_dir, out, 12, 16, 1)
    assert (out / "report.json").exists()


def test_the_seed_decides_the_draw(mix, tokenizer_dir, tmp_path):
    first, again, other = (
        build_calibration(mix, tokenizer_dir, tmp_path / name, 12, 16, seed)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first["hash"] == again["hash"] != other["hash"]
    assert (tmp_path / "a" / "calib.jsonl").read_bytes() == (
        tmp_path / "b" / "calib.jsonl"
    ).read_bytes()


def test_eos_stands_between_documents_once(write_mix, tokenizer_dir, tmp_path):
    mix = write_mix(
        {
            "plain": {"file": "a.txt"},
            "talk": {"file": "b.jsonl", "format": "messages"},
        },
        {"a.txt": "ab\n---\ncd", "b.jsonl": "\n".join([json.dumps(TALK)] * 2)},
    )
    sources = build_calibration(mix, tokenizer_dir, tmp_path / "out", 2, 5, 0)["sources"]
    assert sources["plain"]["tokens"] == 2 + 1 + 2
    # The template ends a conversation with EOS itself.
    assert sources["talk"]["tokens"] == 2 * sources["talk"]["document_tokens"]["max"]


def test_every_row_starts_with_bos_where_the_model_wants_it(mix, make_tokenizer, tmp_path):
    folder = make_tokenizer(bos=True)
    report = build_calibration(mix, folder, tmp_path / "out", 12, 16, 0)
    rows = read_rows(tmp_path / "out")
    assert {len(row["input_ids"]) for row in rows} == {16}
    (bos,) = {row["input_ids"][0] for row in rows}
    assert all(bos not in row["input_ids"][1:] for row in rows)
    talk = report["sources"]["talk"]
    assert talk["tokens"] == talk["rows_available"] * 15 + talk["dropped_tail_tokens"]


def test_too_little_text_names_what_there_is(mix, tokenizer_dir, tmp_path):
    out = tmp_path / "out"
    fault = fault_of(mix, tokenizer_dir, out, 10_000, 16, 0)
    assert (fault.key, "not 10000" in fault.message) == ("sources", True)
    assert "at most" in fault.mend
    assert not out.exists()


def test_a_model_without_chat_template_is_told_how_to_mend_it(mix, make_tokenizer, tmp_path):
    folder = make_tokenizer(template=None)
    fault = fault_of(mix, folder, tmp_path / "out", 4, 16, 0)
    assert fault.key == "chat_template"
    assert "messages" in fault.mend


def test_a_conversation_the_template_refuses_is_named(write_mix, tokenizer_dir, tmp_path):
    row = {"messages": [{"role": "tool", "content": "42"}]}
    mix = write_mix(
        {"talk": {"file": "t.jsonl", "format": "messages"}},
        {"t.jsonl": f"{json.dumps(TALK)}\n{json.dumps(row)}"},
    )
    fault = fault_of(mix, tokenizer_dir, tmp_path / "out", 1, 16, 0)
    assert fault.file.endswith("t.jsonl:2")
    assert "no tools here" in fault.message


def test_a_tokenizer_without_eos_is_a_fault(mix, make_tokenizer, tmp_path):
    fault = fault_of(mix, make_tokenizer(eos=False), tmp_path / "out", 4, 16, 0)
    assert fault.key == "eos_token"


@pytest.mark.parametrize(("stops", "eos", "noted"), [(97, 97, True), ([98, 257], 257, False)])
def test_the_model_says_where_documents_end(write_mix, make_tokenizer, tmp_path, stops, eos, noted):
    folder = make_tokenizer()
    (folder / "generation_config.json").write_text("{}")
    (folder / "config.json").write_text(json.dumps({"eos_token_id": stops}))
    mix = write_mix({"plain": {"file": "a.txt"}}, {"a.txt": "..\n---\n.."})
    report = build_calibration(mix, folder, tmp_path / "out", 1, 5, 0)
    assert report["eos_token_id"] == eos == read_rows(tmp_path / "out")[0]["input_ids"][2]
    assert bool(report["notes"]) == noted


def test_a_missing_model_names_the_command(mix, tmp_path):
    with pytest.raises(MissingInput, match="qpipe model"):
        build_calibration(mix, tmp_path / "no-model", tmp_path / "out", 4, 16, 0)
