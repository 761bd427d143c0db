"""What every config model has in common: unknown keys are errors, values do not change."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

__all__ = ["Model", "Name"]


class Model(BaseModel):
    """Base of all config models."""

    model_config = ConfigDict(
        # Strict: YAML's `yes` is no number.
        strict=True,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


def _check_name(value: str) -> str:
    # A dot in a key breaks DVC's dotted parameters.
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,99}", value):
        raise ValueError("a name has lower-case letters, digits, '-' and '_' only, at most 100")
    return value


Name = Annotated[str, AfterValidator(_check_name)]
