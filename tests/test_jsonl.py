from qpipe.jsonl import read_jsonl


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
