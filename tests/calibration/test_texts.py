"""The texts that come with the project."""

import json
import re
from pathlib import Path

import pytest
import yaml

from qpipe.calibration import _structured
from qpipe.calibration._mix import read_mix
from qpipe.config import LONG_CONTEXT

ROOT = Path(__file__).parents[2]
HELDOUT = sorted((ROOT / "evalsets" / "heldout").glob("*.txt"))


def sentences(text):
    parts = re.split(r"(?<=[.!?;:])\s+|(?<=[。！？।])|\n", text)
    return {part.strip() for part in parts if len(part.strip()) > 24}


@pytest.fixture(scope="module")
def calibration():
    return read_mix(ROOT / "calib" / "mix.yaml", ROOT)


def test_every_source_file_is_in_the_mix(calibration):
    named = {Path(source.file).name for source in calibration[0].sources.values()}
    assert named == {path.name for path in (ROOT / "calib" / "sources").iterdir()}


def test_the_business_categories_are_calibrated_and_held_out(calibration):
    suite = yaml.safe_load((ROOT / "evalsets/business/business.yaml").read_text(encoding="utf-8"))
    # Long texts are made of the others: `fidelity.long_tokens`, `calibration.tokens`.
    wanted = set(suite["files"]) - {LONG_CONTEXT}
    assert len(wanted) == 7
    assert wanted <= {source.category for source in calibration[0].sources.values()}
    assert wanted <= {path.stem for path in HELDOUT}


@pytest.mark.parametrize("path", HELDOUT, ids=lambda path: path.stem)
def test_heldout_text_is_not_calibration_text(path, calibration):
    seen = set()
    for documents in calibration[1].values():
        for document in documents:
            content = document.content
            turns = [content] if isinstance(content, str) else [m["content"] for m in content]
            seen.update(*(sentences(turn) for turn in turns))
    text = path.read_text(encoding="utf-8")
    assert len(re.split(r"\n\s*\n", text.strip())) >= 6
    assert not sentences(text) & seen


@pytest.mark.parametrize("name", _structured.FILES)
def test_structured_texts_are_what_the_generator_writes(name):
    text = (ROOT / "calib" / "sources" / name).read_text(encoding="utf-8")
    assert text == _structured.render(name)
    assert all(json.loads(line)["messages"] for line in text.splitlines())
