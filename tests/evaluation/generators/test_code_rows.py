"""Every piece of code is run."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

BODIES = {
    "increment(x)": "x + 1",
    "add(a, b)": "a + b",
    "subtract(a, b)": "a - b",
    "multiply(a, b)": "a * b",
    "square(x)": "x ** 2",
    "double(x)": "2 * x",
    "is_even(n)": "n % 2 == 0",
    "first(items)": "items[0]",
    "last(items)": "items[-1]",
    "length(items)": "len(items)",
    "upper(text)": "text.upper()",
    "larger(a, b)": "max(a, b)",
    "negate(x)": "-x",
}


def printed(code):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    return out.getvalue().strip()


def rows_of(rows, kind):
    return [row for row in rows if kind in row["tags"]]


def test_code_prints_the_reference(release):
    rows = rows_of(release["code"], "output")
    assert {row["level"] for row in rows} == {1, 2, 3, 4}
    for row in rows:
        _, *solved, asked = row["prompt"].split("\n\n")
        assert printed(asked.removesuffix("\nAnswer:")) == row["reference"]
        for block in solved:
            code, answer = block.split("\nAnswer: ")
            assert printed(code) == answer


def test_the_right_body_matches_and_others_do_not(release):
    rows = [row for row in rows_of(release["code"], "completion") if "sql" not in row["tags"]]
    for row in rows:
        signature = re.findall(r"def (.*):", row["prompt"])[-1]
        fits = [name for name, body in BODIES.items() if re.search(row["reference"], body)]
        # Minus x is also the end of a minus b.
        assert signature in fits and len(fits) <= 2


def test_the_right_condition_matches(release):
    for row in rows_of(release["code"], "sql"):
        column, words, value = re.findall(r"where (\w+) is (.+) (\d+)\n", row["prompt"])[-1]
        sign = {"more than": ">", "less than": "<", "equal to": "="}[words]
        assert re.search(row["reference"], f" {column} {sign} {value};")
        assert not re.search(row["reference"], f" {column} {sign} {value}0;")
        assert not re.search(row["reference"], f" {column} != {value};")


def test_only_python_is_python(release):
    for row in rows_of(release["code"], "language"):
        code = row["prompt"].split("?\n", 1)[1].removesuffix("\nAnswer:")
        if row["reference"] == "Python":
            compile(code, "row", "exec")
        else:
            with pytest.raises(SyntaxError):
                compile(code, "row", "exec")
