import json

import pytest

from qpipe.calibration import load_mix
from qpipe.calibration._mix import read_mix
from qpipe.errors import ConfigError


def faults_of(path, root):
    with pytest.raises(ConfigError) as caught:
        load_mix(path, root)
    return {(fault.file, fault.key): fault.message for fault in caught.value.faults}


def test_reads_each_format(write_mix, tmp_path):
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    path = write_mix(
        {
            "plain": {"file": "a.txt"},
            "rows": {"file": "b.jsonl", "format": "jsonl", "field": "body"},
            "talk": {"file": "c.jsonl", "format": "messages"},
        },
        {
            "a.txt": "one\n\nstill one\n---\n\n---\ntwo --- two\n",
            "b.jsonl": '{"body": "three"}\n',
            "c.jsonl": json.dumps({"messages": talk}),
        },
    )
    mix, documents = read_mix(path, tmp_path)
    assert list(mix.sources) == ["plain", "rows", "talk"]
    assert [d.content for d in documents["plain"]] == ["one\n\nstill one", "two --- two"]
    assert [(d.where, d.content) for d in documents["rows"]] == [("calib/b.jsonl:1", "three")]
    assert documents["talk"][0].content == talk


def test_all_faults_are_reported_together(write_mix, tmp_path):
    bad_roles = [
        '{"messages": [{"role": "robot", "content": "x"}]}',
        '{"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]}',
        '{"messages": []}',
        '{"messages": [{"role": "user", "content": ""}]}',
        '{"messages": ["x"]}',
    ]
    path = write_mix(
        {
            "gone": {"file": "gone.txt"},
            "empty": {"file": "empty.txt"},
            "latin": {"file": "latin.txt"},
            "rows": {"file": "rows.jsonl", "format": "jsonl"},
            "talk": {"file": "talk.jsonl", "format": "messages"},
        },
        {
            "empty.txt": "\n---\n \n",
            "latin.txt": b"caf\xe9",
            "rows.jsonl": '{"text": "fine"}\n{"text": 3}\n{"body": "x"}\nnope\n',
            "talk.jsonl": "\n".join(bad_roles),
        },
    )
    faults = faults_of(path, tmp_path)
    assert set(faults) == {
        ("calib/mix.yaml", "sources.gone.file"),
        ("calib/mix.yaml", "sources.empty.file"),
        ("calib/latin.txt", "text"),
        ("calib/rows.jsonl:2", "text"),
        ("calib/rows.jsonl:3", "text"),
        ("calib/rows.jsonl:4", "row"),
        *((f"calib/talk.jsonl:{line}", "messages") for line in range(1, 6)),
    }
    assert "robot" in faults["calib/talk.jsonl:1", "messages"]
    assert "lacks" in faults["calib/rows.jsonl:3", "text"]


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ({"weight": 0}, "sources.a.weight"),
        ({"wieght": 1}, "sources.a.wieght"),
        ({"format": "pdf"}, "sources.a.format"),
        ({"field": "text"}, "sources.a"),
    ],
)
def test_the_mix_file_is_checked(write_mix, tmp_path, source, key):
    path = write_mix({"a": {"file": "a.txt", **source}}, {"a.txt": "x"})
    assert ("calib/mix.yaml", key) in faults_of(path, tmp_path)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-16", "UTF-16 (the byte order mark at byte 0)"),
        ("utf-16-le", "byte 1 is NUL"),
        ("latin-1", "not UTF-8 (byte 3)"),
    ],
)
def test_another_encoding_is_named(write_mix, tmp_path, encoding, message):
    files = {"a.txt": "café".encode(encoding), "b.jsonl": '{"text": "café"}'.encode(encoding)}
    path = write_mix({"a": {"file": "a.txt"}, "b": {"file": "b.jsonl", "format": "jsonl"}}, files)
    with pytest.raises(ConfigError) as caught:
        load_mix(path, tmp_path)
    text, rows = caught.value.faults
    assert (text.file, rows.file.partition(":")[0]) == ("calib/a.txt", "calib/b.jsonl")
    assert message in text.message
    assert "iconv" in text.mend and "iconv" in rows.mend
