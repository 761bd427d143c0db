"""Extracted fields: precision, recall and F1 beside the baseline's."""

from __future__ import annotations

from typing import Any

__all__ = ["fields_part"]


def fields_part(results: dict[str, Any], baseline: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry a task and field, the greatest loss of F1 first.

    ``wanted``: how many references have the field; ``precision``, ``recall`` and ``f1``, and the
    baseline's F1 as ``f1_baseline``. A field that no reference has is left out.
    """
    found = [
        {
            "task": task,
            "field": field,
            **figures,
            "f1_baseline": _fields(baseline, task).get(field, {}).get("f1"),
        }
        for task in results["tasks"]
        for field, figures in _fields(results, task).items()
        if figures["f1"] is not None
    ]
    return sorted(found, key=lambda entry: entry["f1"] - (entry["f1_baseline"] or 0.0))


def _fields(results: dict[str, Any], task: str) -> dict[str, Any]:
    fields: dict[str, Any] = results["tasks"].get(task, {}).get("fields", {})
    return fields
