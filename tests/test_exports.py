from __future__ import annotations

import importlib
import pkgutil

import pytest

import qpipe

# Workers are scripts for other interpreters.
PUBLIC = [
    f"qpipe.{found.name}"
    for found in pkgutil.iter_modules(qpipe.__path__)
    if found.name not in ("__main__", "workers")
]


@pytest.mark.parametrize("module", ["qpipe", *PUBLIC])
def test_all_names_what_exists(module: str) -> None:
    found = importlib.import_module(module)
    assert found.__doc__
    assert found.__all__
    assert len(set(found.__all__)) == len(found.__all__)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []
