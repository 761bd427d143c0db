from __future__ import annotations

import pandas as pd
import pytest

from qpipe.compare._pairs import pair
from qpipe.errors import InvalidMeasurement
from tests.records_fixture import samples


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The baseline's rows and a variant's: each question has a score of its own."""
    rows = samples("bf16", 10)
    return rows, rows.assign(score=range(len(rows)))


def by_question(variant: pd.DataFrame) -> dict[str, float]:
    """The variant's score by the question that it was paired with."""
    baseline, _ = frames()
    labelled = baseline.assign(response=baseline["category"] + baseline["doc_id"])
    paired = pair(labelled, variant, "v").rows
    return dict(zip(paired["response_baseline"], paired["score"], strict=True))


@pytest.mark.parametrize("column", ["task", "doc_hash", "prompt_hash", "target_hash"])
def test_another_question_of_the_same_id_is_not_paired(column: str) -> None:
    baseline, variant = frames()
    variant.loc[3, column] = "other"
    found = pair(baseline, variant, "v")
    assert (found.unpaired_baseline, found.unpaired_variant) == (1, 1)
    assert sorted(found.rows["score"]) == sorted(set(variant["score"]) - {3.0})
    with pytest.raises(InvalidMeasurement, match="no question of 'v' has"):
        pair(baseline, variant.assign(**{column: "other"}), "v")


@pytest.mark.parametrize("seed", range(3))
def test_order_and_ids_do_not_matter(seed: int) -> None:
    _, variant = frames()
    expected = by_question(variant)
    assert len(expected) == len(variant)
    ids = variant["doc_id"].to_list()
    moved = variant.sample(frac=1, random_state=seed).assign(doc_id=ids)
    assert by_question(moved) == expected


def test_equal_questions_of_one_task_are_paired_once_each() -> None:
    baseline, variant = frames()
    found = pair(pd.concat([baseline, baseline.head(2)]), pd.concat([variant, variant[:1]]), "v")
    assert len(found.rows) == len(variant) + 1
    assert (found.unpaired_baseline, found.unpaired_variant) == (1, 0)
