"""Every question is answered again from its text by pattern."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from qpipe.evaluation.generators import categories, draw, in_tokens, in_words


def parts(row):
    """Template, text, question."""
    text, asked = re.fullmatch(
        r"Text: (.*)\nQuestion: (.*?)\nAnswer:.*", row["prompt"].split("\n\n")[-1], re.S
    ).groups()
    return row["tags"][0].removeprefix("template:"), text, asked


def place(text, fact):
    return 100 * len(text[: text.index(fact)].split()) / len(text.split())


def answered(template, text, asked):
    """The answer and the fact that the depth is of."""
    if template == "reverse":
        code = re.search(r"code (\d+)\?", asked)[1]
        found = re.search(rf"The code of the (\w+ \w+) is {code}\.", text)
        return found[1], found[0]
    if template == "hops":
        owner = re.search(r"that (\w+) hid", asked)[1]
        paper = re.search(rf"{owner} hid the (\w+)\.", text)[1]
        key = re.search(rf"The {paper} lies in the (\w+ \w+)\.", text)[1]
        found = re.search(rf"The code of the {key} is (\d+)\.", text)
        return found[1], found[0]
    if template == "latest":
        key = re.search(r"code of the (\w+ \w+) now", asked)[1]
        found = list(re.finditer(rf"The code of the {key} (?:is|was changed to) (\d+)\.", text))
        assert len(found) == 3 and " is " in found[0][0]
        return found[-1][1], found[-1][0]
    if template == "total":
        key = re.search(r"into the (\w+) in all", asked)[1]
        found = re.findall(rf"(\w+) put (\d+) coins into the {key}\.", text)
        assert len(found) == 3
        first = next(pair for pair in found if pair[0] == "Anna")
        return sum(int(count) for _, count in found), f"Anna put {first[1]} coins into the {key}."
    key = re.search(r"the (\w+ \w+)(?: built)?\?", asked)[1]
    (found,) = re.finditer(
        rf"The (?:code of the |password of the )?{key} (?:is|was built in) (\w+)\.", text
    )
    return found[1], found[0]


def test_references_are_right_and_facts_are_where_the_tag_says(release):
    for row in release["long-context"]:
        template, text, asked = parts(row)
        answer, fact = answered(template, text, asked)
        assert answer == row["reference"]
        (depth,) = (
            int(tag.removeprefix("depth:")) for tag in row["tags"] if tag.startswith("depth:")
        )
        assert abs(place(text, fact) - depth) <= 6, row["id"]


def test_the_answer_is_said_once(release):
    for row in release["long-context"]:
        template, _, _ = parts(row)
        if template not in ("total", "reverse"):
            assert len(re.findall(rf"\b{row['reference']}\b", row["prompt"])) == 1, row["id"]


def test_lengths_are_what_the_tag_says(release):
    words = {"tokens:0.5k": 400, "tokens:0.9k": 700, "tokens:1.3k": 1000}
    for row in release["long-context"]:
        assert abs(len(parts(row)[1].split()) - words[row["tags"][1]]) <= 20
        # The example and the question are short beside the text.
        assert len(row["prompt"].split()) < words[row["tags"][1]] + 100
        # 1.3 tokens a word is SmolLM2's; a context of 2048 has room for twice the answer.
        assert 1.5 * len(row["prompt"].split()) + 2 * row["max_tokens"] < 2048


@pytest.mark.parametrize("size", [36, 200])
def test_lengths_and_depths_are_crossed_evenly(size, release):
    cells = Counter(tuple(row["tags"][1:3]) for row in release["long-context"][:size])
    assert len(cells) == 9
    assert max(cells.values()) - min(cells.values()) <= 4


def test_every_kind_comes_at_every_length_and_depth(release):
    cells = {tuple(row["tags"][:3]) for row in release["long-context"]}
    kinds = {row["tags"][0] for row in release["long-context"]}
    for level, shares in ((1, 3), (2, 3), (3, 4), (4, 3)):
        mine = {row["tags"][0] for row in release["long-context"] if row["level"] == level}
        assert len(mine) == shares
        assert len({cell for cell in cells if cell[0] in mine}) == 9 * shares
    assert len(kinds) == 13


@pytest.mark.parametrize(
    ("words", "tag"), [(400, "0.5k"), (1500, "2k"), (3100, "4k"), (12300, "16k"), (49200, "64k")]
)
def test_any_length_can_be_asked_for(words, tag):
    rows = draw("long-context", categories([in_words(words)])["long-context"], 1, 4)
    for row in rows:
        assert row["tags"][1] == f"tokens:{tag}"
        assert abs(len(parts(row)[1].split()) - words) <= 20


@pytest.mark.parametrize("depths", [(10, 50, 90), (10, 30, 50, 70, 90), (50,)])
@pytest.mark.parametrize("words", [(400,), (400, 500), (400, 500, 600, 700, 800)])
def test_any_number_of_lengths_is_crossed_with_all_depths(words, depths):
    made = categories([in_words(each) for each in words], depths)["long-context"]
    for template in {template.name for template in made}:
        cells = [
            tuple(t.make.keywords[k] for k in ("length", "depth"))
            for t in made
            if t.name == template
        ]
        assert len(set(cells)) == len(cells) == len(depths) * len(words)


def pieces(text):
    """A tokenizer's count: longer words have more of its tokens."""
    return sum(1 + len(word) // 6 for word in re.findall(r"\w+|[^\w\s]", text))


@pytest.mark.parametrize(
    ("tokens", "tag"), [(1024, "1k"), (1536, "1.5k"), (3000, "3000"), (8192, "8k")]
)
def test_prompt_and_answer_fill_the_tokens_asked_for_and_never_more(tokens, tag):
    made = categories([in_tokens(tokens, pieces)], (10, 30, 50, 70, 90))["long-context"]
    for row in draw("long-context", made, 1, 40):
        assert row["tags"][1] == f"tokens:{tag}"
        assert 0.97 * tokens <= pieces(row["prompt"]) + row["max_tokens"] <= tokens, row["id"]
        template, text, asked = parts(row)
        answer, fact = answered(template, text, asked)
        assert answer == row["reference"]
        assert abs(place(text, fact) - int(row["tags"][2].removeprefix("depth:"))) <= 6


def test_a_release_draw_has_every_length_at_every_depth():
    lengths = [in_tokens(1024 * thousands, pieces) for thousands in (1, 2, 4)]
    rows = draw("long-context", categories(lengths, (10, 30, 50, 70, 90))["long-context"], 7, 200)
    cells = Counter(tuple(row["tags"][1:3]) for row in rows)
    assert len(cells) == 15
    assert max(cells.values()) - min(cells.values()) <= 3


def test_tokens_that_no_prose_makes_are_an_error():
    made = categories([in_tokens(1024, lambda _: 2000)])["long-context"]
    with pytest.raises(ValueError, match="no prose makes a question of 1k tokens"):
        draw("long-context", made, 1, 1)
