from __future__ import annotations

from pathlib import Path

import pytest

from qpipe.config import BusinessSuite, load_yaml
from qpipe.evaluation import Row, load_business, score
from qpipe.evaluation.generate import generate, main
from qpipe.evaluation.generators import MAKERS, draw

ROOT = Path(__file__).parents[2]
SUITE_FILE = ROOT / "evalsets" / "business" / "business.yaml"


@pytest.fixture(scope="module")
def suite() -> BusinessSuite:
    return load_yaml(SUITE_FILE, ROOT, BusinessSuite)


@pytest.fixture(scope="module")
def rows(suite: BusinessSuite) -> dict[str, list[Row]]:
    return load_business(SUITE_FILE, suite, ROOT)


def test_checked_in_files_are_what_is_generated(tmp_path: Path) -> None:
    for path in generate(tmp_path, seed=7, rows=40):
        assert path.read_bytes() == (SUITE_FILE.parent / path.name).read_bytes(), path.name


def test_suite_names_every_category(suite: BusinessSuite) -> None:
    assert list(suite.files) == list(MAKERS)


def test_rows_are_unique_and_enough(rows: dict[str, list[Row]]) -> None:
    prompts = [row.prompt for group in rows.values() for row in group]
    assert len(set(prompts)) == len(prompts)
    for group in rows.values():
        assert len(group) >= 40
        assert len({row.level for row in group}) > 1


def test_choice_categories_are_judged_by_likelihood(rows: dict[str, list[Row]]) -> None:
    for category in ("classification", "low-resource"):
        assert {row.scorer for row in rows[category]} == {"choice"}


def test_references_satisfy_their_scorers(rows: dict[str, list[Row]]) -> None:
    for group in rows.values():
        for row in group:
            if row.scorer in ("exact", "numeric", "contains", "choice"):
                assert score(row, row.target) == 1, row.id
                if row.scorer == "choice":
                    assert row.choices is not None and row.target in row.choices


def test_no_question_is_solved_in_its_own_prompt(rows: dict[str, list[Row]]) -> None:
    for group in rows.values():
        for row in group:
            assert row.prompt is not None
            blocks = [block.removesuffix("\nAnswer:") for block in row.prompt.split("\n\n")]
            assert not any(block.startswith(blocks[-1]) for block in blocks[:-1]), row.id


def test_seed_changes_rows() -> None:
    assert draw("math", MAKERS["math"], 1, 10) != draw("math", MAKERS["math"], 2, 10)


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="different questions"):
        draw("math", [lambda rng: {"prompt": "always the same"}], 1, 2)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--out", str(tmp_path), "--seed", "1", "--rows", "4"])
    assert len(capsys.readouterr().out.splitlines()) == len(MAKERS)
