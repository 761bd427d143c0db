from hypothesis import given
from hypothesis import strategies as st

from qpipe.jsonl import encoding_problem, read_jsonl


def test_numbers_rows_and_collects_every_fault(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n[2]\n{"a": \n\xff\n{"a": "\xe2\x80\xa8"}\n')
    faults = []
    rows = read_jsonl(path, "sets/x.jsonl", faults)
    assert rows == [(1, {"a": 1}), (6, {"a": "\u2028"})]
    assert [fault.file for fault in faults] == [f"sets/x.jsonl:{line}" for line in (3, 4, 5)]
    assert "list" in faults[0].message
    assert "not JSON" in faults[1].message
    assert "UTF-8" in faults[2].message


def test_missing_file_is_a_fault(tmp_path):
    faults = []
    assert read_jsonl(tmp_path / "no.jsonl", "no.jsonl", faults) == []
    assert faults[0].file == "no.jsonl"


def test_another_encoding_is_named_with_byte_and_mend(tmp_path):
    text = '{"a": "é"}\n{"a": "b"}\n'
    cases = {
        "utf-16": ("UTF-16 (the byte order mark at byte 0)", "iconv -f UTF-16 "),
        "utf-32": ("UTF-32 (the byte order mark at byte 0)", "iconv -f UTF-32 "),
        "utf-16-le": ("byte 1 is NUL", "iconv -f UTF-16LE"),
        "latin-1": ("not UTF-8 (byte 7)", "iconv -f LATIN1"),
    }
    for encoding, (message, mend) in cases.items():
        path = tmp_path / "x.jsonl"
        path.write_bytes(text.encode(encoding))
        faults = []
        rows = read_jsonl(path, "x.jsonl", faults)
        (fault,) = faults
        assert message in fault.message and mend in fault.mend, encoding
        assert fault.file == ("x.jsonl:1" if encoding == "latin-1" else "x.jsonl")
        assert len(rows) == (1 if encoding == "latin-1" else 0)
        assert encoding_problem(path.read_bytes()) == (fault.message, fault.mend)


def test_a_bad_byte_is_counted_from_the_start_of_the_file(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\xff\n')
    faults = []
    assert read_jsonl(path, "x", faults) == [(1, {"a": 1})]
    assert [fault.message for fault in faults] == ["not UTF-8 (byte 12)"]


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_utf8_has_no_problem(text):
    assert encoding_problem(text.encode()) is None
