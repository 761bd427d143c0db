from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from qpipe.config import BusinessSuite, load_yaml
from qpipe.evaluation import Row, load_business, score
from qpipe.evaluation.generate import generate, main
from qpipe.evaluation.generators import categories
from tests.workspace_fixture import release_body, write_workspace

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "evalsets" / "business"
SUITE_FILES = (FOLDER / "business.yaml", FOLDER / "business-code.yaml")


@pytest.fixture(scope="module")
def suites() -> list[BusinessSuite]:
    return [load_yaml(path, ROOT, BusinessSuite) for path in SUITE_FILES]


@pytest.fixture(scope="module")
def rows(suites: list[BusinessSuite]) -> dict[str, list[Row]]:
    """Of all categories, the default suite's eight first."""
    found: dict[str, list[Row]] = {}
    for path, suite in zip(SUITE_FILES, suites, strict=True):
        found |= load_business(path, suite, ROOT)
    return found


def test_checked_in_files_are_what_is_generated(tmp_path: Path) -> None:
    for path in generate(tmp_path, seed=7, rows=40):
        assert path.read_bytes() == (FOLDER / path.name).read_bytes(), path.name


def test_checked_in_files_are_small() -> None:
    assert max(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


def test_suites_name_every_category(suites: list[BusinessSuite]) -> None:
    named = [category for suite in suites for category in suite.files]
    assert named == list(categories())
    assert len(suites[0].files) == 8


def test_the_default_suite_runs_no_code(rows: dict[str, list[Row]]) -> None:
    for category, group in rows.items():
        scorers = {row.scorer for row in group}
        assert (scorers == {"code_tests"}) == (category == "code-generation")


def test_rows_are_unique_and_enough(rows: dict[str, list[Row]]) -> None:
    every = [row for group in rows.values() for row in group]
    assert len({row.prompt for row in every}) == len({row.id for row in every}) == len(every)
    for group in rows.values():
        assert [sum(row.level == level for row in group) for level in (1, 2, 3, 4)] == [10] * 4


def test_every_row_names_its_template(rows: dict[str, list[Row]]) -> None:
    for category, templates in categories().items():
        levels = {f"template:{template.name}": template.level for template in templates}
        for row in rows[category]:
            (tag,) = (tag for tag in row.tags if tag.startswith("template:"))
            assert levels[tag] == row.level


def test_some_rows_are_chinese(rows: dict[str, list[Row]]) -> None:
    others = ("low-resource", "long-context")
    for category in rows.keys() - set(others):
        assert any("zh" in row.tags for row in rows[category]), category


def test_choice_categories_are_judged_by_likelihood(rows: dict[str, list[Row]]) -> None:
    for category in ("classification", "low-resource"):
        assert {row.scorer for row in rows[category]} == {"choice"}


def test_references_satisfy_their_scorers(rows: dict[str, list[Row]]) -> None:
    for group in rows.values():
        for row in group:
            if row.scorer in ("exact", "numeric", "contains", "choice"):
                assert score(row, row.target) == 1, row.id
            if row.scorer == "json_fields":
                assert score(row, json.dumps(row.reference)) == 1, row.id
            if row.scorer == "choice":
                assert row.choices is not None and row.target in row.choices


def test_no_question_is_solved_in_its_own_prompt(rows: dict[str, list[Row]]) -> None:
    for group in rows.values():
        for row in group:
            assert row.prompt is not None
            blocks = [block.removesuffix("\nAnswer:") for block in row.prompt.split("\n\n")]
            assert not any(block.startswith(blocks[-1]) for block in blocks[:-1]), row.id


def test_prompts_end_where_the_answer_starts(rows: dict[str, list[Row]]) -> None:
    for group in rows.values():
        assert not [row.id for row in group if str(row.prompt)[-1:].isspace()]


def length_tags(folder: Path) -> set[str]:
    lines = (folder / "long-context.jsonl").read_text(encoding="utf-8").splitlines()
    return {json.loads(line)["tags"][1] for line in lines}


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--out", str(tmp_path), "--seed", "1", "--rows", "4", "--words", "450"])
    assert len(capsys.readouterr().out.splitlines()) == len(categories())
    assert length_tags(tmp_path) == {"tokens:0.6k"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of one token a word, and the limit of a model."""
    folder = tmp_path_factory.mktemp("model")
    core = Tokenizer(WordLevel({"?": 0, "<s>": 1}, unk_token="?"))
    core.pre_tokenizer = Whitespace()
    core.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>").save_pretrained(folder)
    (folder / "config.json").write_text('{"max_position_embeddings": 4096}')
    return folder


def drawn(folder: Path, model: Path, tokens: str) -> set[str]:
    limits = ["--tokens", tokens, "--tokenizer", str(model)]
    main(["--out", str(folder), "--rows", "40", "--category", "long-context", *limits])
    assert [path.name for path in folder.iterdir()] == ["long-context.jsonl"]
    return length_tags(folder)


def test_lengths_in_the_models_own_tokens(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert drawn(tmp_path / "a", model, "2k,max,1k") == {"tokens:1k", "tokens:2k", "tokens:4k"}
    rows = [json.loads(line) for line in (tmp_path / "a" / "long-context.jsonl").open()]
    assert len({row["tags"][2] for row in rows}) == 5
    for row in rows:
        # With BOS, and room for the answer.
        tokens = 1 + len(re.findall(r"\w+|[^\w\s]+", row["prompt"])) + row["max_tokens"]
        size = 1024 * int(row["tags"][1].removeprefix("tokens:").removesuffix("k"))
        assert 0.97 * size <= tokens <= size


def test_the_longest_is_what_the_release_serves(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = release_body(serve={"max_model_len": 3000}, baseline={"serve": {"max_model_len": 2560}})
    write_workspace(tmp_path, body)
    monkeypatch.chdir(tmp_path)
    assert drawn(tmp_path / "a", model, "max") == {"tokens:2.5k"}
    assert drawn(tmp_path / "b", model, "2560,max") == {"tokens:2.5k"}
    write_workspace(tmp_path, release_body(serve={"max_model_len": 8192}))
    assert drawn(tmp_path / "c", model, "max") == {"tokens:4k"}


def test_a_folder_without_a_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["--out", "rows", "--tokens", "1k"])
    said = capsys.readouterr().err
    assert "out/model: tokenizer: the tokenizer cannot be loaded" in said and "--tokenizer" in said
    with pytest.raises(SystemExit):
        main(["--out", "rows", "--tokens", "max"])
    assert "`max` is not known" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--words", ["300", "500,500", "many", ""]),
        ("--tokens", ["512", "1k,1024", "2 k", "", "max,max"]),
        ("--depths", ["0", "50,50", "half", "100"]),
    ],
)
def test_lengths_and_depths_that_cannot_be_are_refused(
    option: str, values: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in values:
        with pytest.raises(SystemExit):
            main(["--out", str(tmp_path), option, value])
        assert option in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
