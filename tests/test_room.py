from __future__ import annotations

from pathlib import Path

import pytest

from qpipe.errors import EnvError
from qpipe.room import GIB, Need, disk_free, memory_free, memory_total, require_room


def test_all_that_is_short_is_told_together() -> None:
    needs = [
        Need("disk", 2 * GIB, GIB, "free some"),
        Need("memory", GIB, GIB, "unused"),
        Need("more memory", 3.5 * GIB, GIB, "free some"),
    ]
    with pytest.raises(EnvError) as caught:
        require_room(needs)
    assert caught.value.message == (
        "not enough room: disk: 2.00 GiB needed, 1.00 GiB there; "
        "more memory: 3.50 GiB needed, 1.00 GiB there"
    )
    assert caught.value.mend == "free some"
    require_room(needs[1:2])


def test_what_is_there(tmp_path: Path) -> None:
    assert disk_free(tmp_path) > 0
    assert 0 < memory_free() <= memory_total()
