"""Every sum is done again from its text."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise


def question(row):
    return row["prompt"].split("\n\n")[-1].removesuffix("\nAnswer:")


def numbers(text):
    return [int(found) for found in re.findall(r"\d+", text)]


def worked_out(template, text):
    n = numbers(text)
    match template:
        case "next-number":
            assert {b - a for a, b in pairwise(n)} == {n[1] - n[0]}
            return n[-1] + n[1] - n[0]
        case "add-digits-zh" | "buy-more" | "buy-more-zh":
            return sum(n)
        case "two-steps":
            return n[0] * n[1] - n[2]
        case "change-zh":
            return n[2] - n[0] * n[1]
        case "fraction":
            return Fraction(n[0], n[1]) * n[2]
        case "discount":
            return Fraction(n[0] * (100 - n[1]), 100) * n[2]
        case "sale-zh":
            return Fraction(n[0] * n[1], 10) * n[2] - n[3]
        case "stock":
            return Fraction(n[0] + n[1] * n[2] - n[3] + n[4], 2)
        case "ages":
            older = n[0] * n[1]
            return older + n[3] + (older - n[2]) + n[3]
    assert re.fullmatch(r"[\d +()x-]+=", text), text
    return eval(text.removesuffix("=").replace("x", "*"))


def test_references_are_right(release):
    for row in release["math"]:
        template = row["tags"][0].removeprefix("template:")
        assert row["reference"] == worked_out(template, question(row)), row


def test_worked_examples_are_right(release):
    for row in release["math"]:
        template = row["tags"][0].removeprefix("template:")
        for block in row["prompt"].split("\n\n")[:-1]:
            asked, answer = re.fullmatch(r"(.*?(?:=|等于|\nAnswer:)) ?(\d+)", block, re.S).groups()
            assert worked_out(template, asked.removesuffix("\nAnswer:")) == int(answer), block
