from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from qpipe.compare import compare
from qpipe.config import Config
from qpipe.errors import MissingInput
from qpipe.gate import gate
from qpipe.records import read_json, write_json
from qpipe.report import report, verdict_table
from qpipe.report._format import count, machine
from qpipe.report._view import gather
from tests.records_fixture import (
    HARDWARE,
    cached_in_fp8,
    left_out,
    measured,
    samples,
    texts,
    with_texts,
    write_samples,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = measured(tmp_path_factory.mktemp("release"))
    compare(config)
    gate(config)
    report(config)
    return config


def page(config: Config, name: str) -> str:
    return (config.workspace.report / name).read_text(encoding="utf-8")


def test_extracted_fields_are_shown(made: Config) -> None:
    html = page(made, "index.html")
    assert "Extracted fields of gptq" in html and "iban" in html
    assert "Extracted fields of bf16" not in html


def test_html_needs_no_network(made: Config) -> None:
    html = page(made, "index.html")
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", html)
    assert "@import" not in html.split("</style>")[0] and "url(" not in html.split("</style>")[0]
    assert 'id="plot-accuracy-speed"' in html and "Plotly.newPlot" in html


@pytest.mark.parametrize("name", ["index.html", "report.md"])
def test_pages_show_every_variant_and_what_it_is(made: Config, name: str) -> None:
    text = page(made, name)
    for variant in made.release.names:
        assert variant in text
    for shown in (
        "NO-GO",
        "INCONCLUSIVE",
        "simulated",
        "dequantized",
        "no NVFP4 kernel",
        "layers.29.mlp.down_proj",
        "128 rows of 512 tokens",
        "Intel Xeon, 2 cores",
    ):
        assert shown in text
    assert "memory_gib" not in text


def test_markdown_tables_are_rectangular(made: Config) -> None:
    for block in re.findall(r"(?:^\|.*\n)+", page(made, "report.md"), re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_equal_records_make_equal_pages(made: Config) -> None:
    before = {name: page(made, name) for name in ("index.html", "report.md")}
    report(made)
    assert before == {name: page(made, name) for name in before}


@pytest.mark.parametrize(
    ("hardware", "shown"),
    [
        (HARDWARE.record(), "Intel Xeon, 2 cores"),
        ({**HARDWARE.record(), "gpus": ["H100", "H100", "A100"]}, "2 × H100, 1 × A100"),
        (None, "–"),
    ],
)
def test_machine(hardware: dict[str, Any] | None, shown: str) -> None:
    assert machine(hardware) == shown


def test_the_size_of_weights_is_that_of_files(made: Config) -> None:
    html = page(made, "index.html")
    assert "In the checkpoint's files" in html and "loaded by the engine" not in html


@pytest.mark.parametrize("width", [100, 200])
def test_terminal_table(made: Config, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    verdict_table(made, console)
    text = console.export_text()
    for shown in ("bf16", "NO-GO", "simulated", "1.43×", "not supported here"):
        assert shown in text


def test_needs_the_gate(tmp_path: Path) -> None:
    config = measured(tmp_path)
    compare(config)
    with pytest.raises(MissingInput, match="qpipe gate"):
        report(config)


def test_a_variant_that_came_after_the_comparison(tmp_path: Path) -> None:
    config = measured(tmp_path)
    compare(config)
    gate(config)
    variants = {**config.release.variants, "late": next(iter(config.release.variants.values()))}
    grown = replace(config, release=config.release.model_copy(update={"variants": variants}))
    gate(grown)
    with pytest.raises(MissingInput, match=r"'late' in .*deltas\.json is missing") as caught:
        report(grown)
    assert caught.value.mend == "run `qpipe compare` first"


def test_a_release_without_speed_or_extras(tmp_path: Path) -> None:
    config = measured(tmp_path)
    workspace = config.workspace
    for name in config.release.names:
        write_json(
            workspace.bench(name),
            {**read_json(workspace.bench(name), "-"), "levels": [], "memory": {}},
        )
    workspace.sensitivity("gptq").unlink()
    (workspace.model / "manifest.json").unlink()
    compare(config)
    gate(config)
    report(config)
    html = page(config, "index.html")
    assert 'id="speed"' not in html and 'id="sensitivity"' not in html
    verdict_table(config)


def test_long_context_by_length_and_depth(tmp_path: Path) -> None:
    config = measured(tmp_path)
    places = ["tokens:1k,depth:10", "tokens:1k,depth:90", "tokens:8k,depth:10", ""]
    for name in ("bf16", "w8a8"):
        rows = samples("bf16", 40)
        tags = rows.groupby("category").cumcount().map(lambda index: places[index % 4])
        fails = (tags == places[2]) & (name != "bf16")
        rows = rows.assign(tags=tags, score=(~fails).astype(float))
        write_samples(config.workspace, name, rows)
    compare(config)
    gate(config)
    report(config)
    cells = r"\| w8a8 \| 8k \| 0\.00 \(−1\.00 \[.*, −0\.\d\d\], n=40\) \| 0\.00 \(−1\.00, n=40\) \| – \|"
    assert re.search(cells, page(config, "report.md"))
    assert "| bf16 | 1k | 1.00 (n=80) | 1.00 (n=40) | 1.00 (n=40) |" in page(config, "report.md")
    html = page(config, "index.html")
    assert 'href="#long-context"' in html and "−1.00 · n 40" in html
    # A variant that was not measured has no rows of dashes there.
    section = html.split('<section id="long-context">')[1].split("</section>")[0]
    assert "w8a8" in section and "nvfp4" not in section
    test_markdown_tables_are_rectangular(config)


def test_without_long_texts_there_is_no_map(made: Config) -> None:
    assert "long-context" not in page(made, "index.html")
    assert "Long context" not in page(made, "report.md")


def test_what_is_exercised(tmp_path: Path) -> None:
    config = measured(tmp_path)
    cached_in_fp8(config, "w8a8", 2e-4)
    compare(config)
    gate(config)
    report(config)
    text = page(config, "report.md")
    said = "prefill and decode read the same fp8 keys and values: KL between the two 0.0002 [0.0001"
    assert f"- w8a8: {said}" in text
    # 40 questions a category; the fidelity texts are prefill only; 128 sampled answers.
    row = "| 4.0k / 640 / 760 | 3.2k / 512 / 0 | 12.8k / 2.0k / 2.4k |"
    assert "| math | reasoning | fidelity texts | sampled answers |" in text and row in text
    html = page(config, "index.html")
    assert 'id="exercised"' in html and said in html
    assert '4.0k<span class="sub">640 cached</span><span class="sub">760 decoded</span>' in html
    test_markdown_tables_are_rectangular(config)


def test_kl_by_third(made: Config) -> None:
    assert "| 0.0177 0.0177 0.0212 |" in page(made, "report.md")
    assert "0.0177<br>0.0177<br>0.0212" in re.sub(r"\s", "", page(made, "index.html"))


def test_kl_of_each_category_has_its_interval(made: Config) -> None:
    section = page(made, "index.html").split("<h3")[1].split("</section>")[0]
    assert section.split(">")[1].startswith("KL by category")
    for row in gather(made).rows:
        for part in row.fidelity.get("categories", {}).values():
            if not row.is_baseline:
                interval = f"[{part['kl_ci_low']:.4f}, {part['kl_ci_high']:.4f}]"
                assert f"{part['kl_mean']:.4f}" in section and interval in section


def test_counts_in_few_signs() -> None:
    numbers = (None, 0, 999, 1000, 12_345, 999_949, 999_950, 4_100_000)
    shown = ["–", "0", "999", "1.0k", "12.3k", "999.9k", "1.0M", "4.1M"]
    assert [count(number) for number in numbers] == shown


def test_log_likelihoods_are_shown_in_their_unit(tmp_path: Path) -> None:
    config = measured(tmp_path, accuracy_margin=0.05)
    with_texts(config)
    left_out(config, "bf16", humaneval="code")
    left_out(config, "gptq", humaneval="code")
    compare(config)
    gate(config)
    report(config)
    markdown, html = page(config, "report.md"), page(config, "index.html")
    assert "language-modelling, nats a word" in markdown
    assert "language-modelling, nats a word" in html
    # exp(0.05) = 1.051: what gptq loses is a perplexity 5% higher.
    scores = markdown[markdown.index("## Scores") :].splitlines()
    row = next(line for line in scores if line.startswith("| gptq |"))
    shown = r"−3\.\d{3} \(−0\.0[45]\d \[−0\.05\d, −0\.04\d\], perplexity 1\.0[45]\d×\)"
    assert re.search(shown, row)
    assert "40 texts lower, 0 higher" in html and " · perplexity 1.05" in html
    for text in (markdown, html):
        assert "humaneval" in text and "no metric for humaneval" in text
    assert gathered_worst(config, "gptq") != "language-modelling"


def gathered_worst(config: Config, name: str) -> str:
    row = next(row for row in gather(config).rows if row.name == name)
    assert row.worst is not None
    return row.worst[0]


def test_a_release_of_log_likelihoods_alone(tmp_path: Path) -> None:
    config = measured(tmp_path)
    for name in config.release.names:
        if name != "nvfp4":
            write_samples(config.workspace, name, texts(name))
    compare(config)
    gate(config)
    report(config)
    html = page(config, "index.html")
    assert 'id="plot-accuracy-speed"' not in html and 'id="plot-throughput"' in html
    verdict_table(config)


def test_what_calibration_covers(tmp_path: Path) -> None:
    config = measured(tmp_path)
    compare(config)
    gate(config)
    folder = config.workspace.calibration("mix")
    built = read_json(folder / "report.json", "-")
    source = {
        "documents": 12,
        "documents_not_drawn": 3,
        "rows_drawn": 8,
        "rows_not_drawn": 21,
        "dropped_tail_tokens": 177,
        "document_tokens": {"max": 230},
    }
    write_json(folder / "report.json", {**built, "sources": {"sums": source}})
    figures = {
        "tokens": 1234,
        "drawn_coverage": 0.43,
        "coverage_reference": 0.87,
        "drawn_js": 0.66,
        "js_reference": None,
        "scripts": {"HAN": 0.92, "LATIN": 0.08},
        "lengths": {"longest": 700, "histogram": {"64": 5, "1024": 1}},
    }
    inside = {
        "exceeding": 0.021,
        "exceeding_reference": 0.004,
        "similarity": 0.931,
        "similarity_reference": 0.977,
    }
    warning = {"group": "held-out/han", "reasons": ["far", "few"], "mend": "add Chinese text"}
    share = {"share": 0.125}
    check = {
        "calibration_hash": "c" * 64,
        "mix": "calib/mix.yaml",
        "verdict": "warn",
        "warnings": [warning, {**warning, "group": None}],
        "notes": ["'mmlu' is not compared"],
        "groups": {"held-out/han": {**figures, "activations": inside}, "core/math": figures},
        "calibration": {
            "lengths": {"sums": {"longest": 230, "histogram": {"256": 12}}},
            "duplicates": {"rows": share, "documents": share},
        },
        "activations": {"factor": 1.5},
    }
    write_json(config.workspace.calibration_check, check)
    report(config)
    for name in ("index.html", "report.md"):
        text = page(config, name).replace("&#39;", "'")
        for shown in (
            *(
                "held-out/han",
                "core/math",
                "far; few",
                "add Chinese text",
                "'mmlu' is not compared",
            ),
            *("43%", "(87%)", "0.66", "2.1%", "(0.4%)", "0.931", "Han 92%", "sums", "177", "21"),
        ):
            assert shown in text, (name, shown)
        assert "Latin 8%" not in text
    assert "≤ 1024: 1" in page(config, "index.html") and "12.5%" in page(config, "index.html")
    test_markdown_tables_are_rectangular(config)
    # A set that was built anew since is another one.
    write_json(config.workspace.calibration_check, {**check, "calibration_hash": "d" * 64})
    report(config)
    assert "held-out/han" not in page(config, "report.md")
