"""A release-size draw, shared by the categories' tests."""

from __future__ import annotations

from typing import Any

import pytest

from qpipe.evaluation.generators import categories, draw

Rows = list[dict[str, Any]]


@pytest.fixture(scope="session")
def release() -> dict[str, Rows]:
    return {name: draw(name, templates, 11, 200) for name, templates in categories().items()}
