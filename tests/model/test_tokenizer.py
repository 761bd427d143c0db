from __future__ import annotations

from pathlib import Path

import pytest

from qpipe.errors import ConfigError
from qpipe.model import load_tokenizer
from tests.workspace_fixture import write_checkpoint


@pytest.mark.parametrize("content", [None, "{}", "{", '{"model": {"type": "none"}}'])
def test_a_tokenizer_that_does_not_load(tmp_path: Path, content: str | None) -> None:
    """The libraries raise errors of many kinds for it."""
    folder = write_checkpoint(tmp_path / "model")
    if content is None:
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_tokenizer(folder, False, shown="here", mend="mend it")
    (fault,) = caught.value.faults
    assert (fault.file, fault.key, fault.mend) == ("here", "tokenizer", "mend it")
