from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from qpipe.errors import DamagedInput, EnvError, MissingInput, QpipeError
from qpipe.records import (
    SCHEMA_VERSION,
    digest,
    read_json,
    read_table,
    require,
    staged_dir,
    write_json,
    write_text,
)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "record.json"
    write_json(path, {"name": "日本", "values": [1, None, 0.5]})
    assert "日本" in path.read_text(encoding="utf-8")
    assert read_json(path, "qpipe x") == {
        "schema_version": SCHEMA_VERSION,
        "name": "日本",
        "values": [1, None, 0.5],
    }
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_is_not_written(tmp_path: Path, value: float) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        write_json(path, {"a": value})
    assert read_json(path, "-")["a"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_failing_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "record.json"
    write_text(path, "old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(EnvError, match=r"cannot write .*record\.json: No space left") as caught:
        write_text(path, "new")
    assert "free disk space" in str(caught.value.mend)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_other_os_errors_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "file" / "below", "x")


def test_reading_what_no_stage_wrote(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with pytest.raises(MissingInput, match="run `qpipe x` first"):
        read_json(path, "qpipe x")
    path.write_text("{")
    with pytest.raises(QpipeError, match="not JSON"):
        read_json(path, "qpipe x")
    path.write_text('{"schema_version": 99}')
    with pytest.raises(QpipeError, match="schema version 99"):
        read_json(path, "qpipe x")


def test_staged_folder_takes_the_targets_place(tmp_path: Path) -> None:
    target = tmp_path / "made" / "it"
    for content in ("one", "two"):
        with staged_dir(target) as staged:
            (staged / content).write_text(content)
            assert staged.parent == target.parent
    assert [path.name for path in target.iterdir()] == ["two"]
    assert list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_failed_staging_leaves_nothing(tmp_path: Path, stop: type[BaseException]) -> None:
    target = tmp_path / "it"
    with staged_dir(target) as staged:
        (staged / "old").write_text("")
    with pytest.raises(stop), staged_dir(target) as staged:
        (staged / "half").write_text("")
        raise stop
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_the_old_folder_stays_until_the_new_one_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "it"
    with staged_dir(target) as staged:
        (staged / "old").write_text("")
    replace = Path.replace

    def fails(path: Path, to: Path) -> Path:
        if to == target and (path / "new").exists():
            raise KeyboardInterrupt
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(KeyboardInterrupt), staged_dir(target) as staged:
        (staged / "new").write_text("")
    assert [path.name for path in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_staging_on_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(EnvError, match="No space left"), staged_dir(tmp_path / "it"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_leavings_of_a_killed_run_are_swept(tmp_path: Path) -> None:
    for name in (".it.staged-dead", ".it-too.staged-alive"):
        (tmp_path / name).mkdir()
    with staged_dir(tmp_path / "it"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [".it-too.staged-alive", "it"]


def test_digest_is_canonical() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert len({digest(1), digest("1"), digest([1]), digest(1, None)}) == 4


@pytest.mark.parametrize(
    ("error", "said", "mend"),
    [
        (OSError(errno.EACCES, "Permission denied", "/models/x"), "no access to /models/x: Perm", "rights"),
        (OSError(errno.EACCES, "Permission denied"), "no access to .*/it: Permission", "rights"),
        (OSError(errno.EROFS, "Read-only file system"), "cannot write .*/it: Read-only", "can be written"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "cannot write .*/it: Disk quota", "free disk space"),
    ],
)  # fmt: skip
def test_staging_names_what_was_refused(
    tmp_path: Path, error: OSError, said: str, mend: str
) -> None:
    with pytest.raises(EnvError, match=said) as caught, staged_dir(tmp_path / "it"):
        raise error
    assert mend in str(caught.value.mend)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["[]", "null", "\xff", "{", '{"schema_version": 99}'])
def test_a_damaged_record_names_the_command(tmp_path: Path, content: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(DamagedInput) as caught:
        read_json(path, "qpipe x")
    assert caught.value.mend == "run `qpipe x` again"


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with pytest.raises(MissingInput, match="qpipe x"):
        read_table(path, "qpipe x")
    pd.DataFrame({"a": [1]}).to_parquet(path)
    assert list(read_table(path, "qpipe x", ["a"])["a"]) == [1]
    with pytest.raises(DamagedInput, match="qpipe x"):
        read_table(path, "qpipe x", ["b"])
    for content in (path.read_bytes()[:-9], b""):
        path.write_bytes(content)
        with pytest.raises(DamagedInput, match="qpipe x"):
            read_table(path, "qpipe x")


def test_a_linked_target_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "it"
    link.symlink_to(tmp_path / "disk")
    with staged_dir(link) as staged:
        (staged / "new").write_text("")
    assert link.is_symlink() and (tmp_path / "disk" / "new").exists()


def test_another_process_keeps_its_staged_folder(tmp_path: Path) -> None:
    other = tmp_path / f".it.staged-{os.getppid()}-x"
    dead = tmp_path / ".it.staged-999999999-x"
    other.mkdir()
    dead.mkdir()
    with staged_dir(tmp_path / "it"):
        pass
    assert other.exists() and not dead.exists()


def test_entries_that_a_record_lacks(tmp_path: Path) -> None:
    require({"a": 1}, ["a"], tmp_path, "qpipe x")
    with pytest.raises(MissingInput, match=r"'b' in .* is missing"):
        require({"a": 1}, ["a", "b"], tmp_path, "qpipe x")
