"""Every piece of code is run."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from qpipe.evaluation.generators._code import _FUNCTIONS

# By function: what it is on values, right bodies, and wrong ones that look like them.
BODIES = {
    "add(a, b)": (
        lambda a, b: a + b,
        ["a + b", "a+b", "b + a", "(a + b)", "sum([a, b])", "sum((a, b))", "a + b  # the sum"],
        ["a + b + 1", "a + a", "a + bb", "a - b", "2 * a + b", "sum([a])", "sum([a, b, b])"],
    ),
    "subtract(a, b)": (
        lambda a, b: a - b,
        ["a - b", "a-b", "(a - b)", "-b + a", "a + (-b)"],
        ["b - a", "a - b - 1", "a + b", "a - -b", "2 * a - b", "-a - b"],
    ),
    "multiply(a, b)": (
        lambda a, b: a * b,
        ["a * b", "b*a", "(b * a)"],
        ["a * b * 2", "a ** b", "a * a", "a * b + 1", "1 + a * b", "b * b"],
    ),
    "square(x)": (
        lambda x: x * x,
        ["x ** 2", "x**2", "x * x", "pow(x, 2)", "(x ** 2)", "x * x;"],
        [
            "x ** 20",
            "x ** 2 + 1",
            "pow(x, 3)",
            "2 ** x",
            "x * 2",
            "x * x * x",
            "x ** -2",
            "pow(2, x)",
        ],
    ),
    "double(x)": (
        lambda x: 2 * x,
        ["2 * x", "x*2", "x + x", "(2*x)", "x << 1"],
        ["2 * x + 1", "x ** 2", "12 * x", "x * 20", "x + x + x", "2 * x * x", "x * 2.5", "x << 2"],
    ),
    "is_even(n)": (
        lambda n: n % 2 == 0,
        [
            "n % 2 == 0",
            "n%2==0",
            "(n % 2) == 0",
            "n & 1 == 0",
            "(n & 1) == 0",
            "not n % 2",
            "not (n % 2)",
            "(n % 2 == 0)",
            "not n & 1",
            "n % 2 != 1",
            "0 == n % 2",
            "True if n % 2 == 0 else False",
        ],
        [
            "n % 2 == 1",
            "n % 2",
            "n % 20 == 0",
            "n % 2 == 0.5",
            "n & 1",
            "not n",
            "n // 2 == 0",
            "not not n % 2",
            "n % 2 == 0 and n > 5",
            "n & 2 == 0",
            "n == 0",
        ],
    ),
    "first(items)": (
        lambda items: items[0],
        [
            "items[0]",
            "(items[0])",
            "items[ 0 ]",
            "items[0] if items else None",
            "next(iter(items))",
        ],
        [
            "items[0][0]",
            "items[0] + 1",
            "items[1]",
            "items",
            "[items[0]]",
            "items[-1]",
            "items[0:1]",
        ],
    ),
    "last(items)": (
        lambda items: items[-1],
        ["items[-1]", "items[len(items) - 1]", "items[len(items)-1]", "items[::-1][0]"],
        [
            "items[-1] + 1",
            "items[-1:]",
            "items[-10:]",
            "items[len(items) - 2]",
            "items[1]",
            "len(items) - 1",
            "items[0]",
        ],
    ),
    "length(items)": (
        len,
        ["len(items)", "(len(items))", "len( items )", "items.__len__()"],
        [
            "len(items) - 1",
            "len(items) + 1",
            "1 + len(items)",
            "len(items[0:1])",
            "len(items) * 2",
            "len(set(items))",
            "-len(items)",
        ],
    ),
    "upper(text)": (
        str.upper,
        ["text.upper()", "str(text).upper()", "str.upper(text)", "(text.upper())"],
        [
            "text.upper",
            "text.upper()[0]",
            "text.lower()",
            "text.upper().lower()",
            "text.isupper()",
            "text.upper() + text",
            "'x' + text.upper()",
        ],
    ),
    "larger(a, b)": (
        max,
        [
            "max(a, b)",
            "max(b,a)",
            "max([a, b])",
            "a if a > b else b",
            "b if a < b else a",
            "b if b >= a else a",
            "a if b <= a else b",
            "a if (a > b) else b",
            "(max(a, b))",
        ],
        [
            "max(a, a)",
            "min(a, b)",
            "a if a > b else a",
            "b if a > b else a",
            "a if a < b else b",
            "max(a, b) + 1",
            "max(a, b, 100)",
            "a",
            "-max(a, b)",
            "a > b",
            "b if a >= b else a",
        ],
    ),
    "negate(x)": (
        lambda x: -x,
        ["-x", "- x", "-1 * x", "x * -1", "x * (-1)", "0 - x", "(-x)", "-(x)"],
        [
            "1 - x",
            "-x - 1",
            "- -x",
            "x",
            "-x * 2",
            "-1 * x * x",
            "x * -10",
            "-xx",
            "x - 1",
            "+x",
            "10 - x",
            "not x",
            "~x",
            "abs(x)",
        ],
    ),
}
ARGUMENTS = {
    "(a, b)": [(3, 5), (7, 2), (-4, 6), (0, 1)],
    "(x)": [(3,), (-2,), (7,)],
    "(n)": [(0,), (3,), (10,), (-4,), (7,), (40,)],
    "(items)": [([4, 9, 4],), ([2],), ([7, 1],)],
    "(text)": [("Oslo",), ("a b",)],
}


def does(signature, body):
    """Whether a function of this body gives what is asked for."""
    name, parameters = re.fullmatch(r"(\w+)(\(.*\))", signature).groups()
    scope = {}
    exec(f"def {signature}:\n    return {body}", scope)
    for values in ARGUMENTS[parameters]:
        try:
            got = scope[name](*values)
        except (TypeError, NameError, IndexError):
            return False
        wanted = BODIES[signature][0](*values)
        if got != wanted or type(got) is not type(wanted):
            return False
    return True


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


def test_bodies_are_told_apart_by_running_them():
    for signature, (_, right, wrong) in BODIES.items():
        assert [body for body in right if not does(signature, body)] == []
        assert [body for body in wrong if does(signature, body)] == []


def test_the_right_bodies_match_and_others_do_not(release):
    rows = [row for row in rows_of(release["code"], "completion") if "sql" not in row["tags"]]
    seen = set()
    for row in rows:
        signature = re.findall(r"def (.*):", row["prompt"])[-1]
        seen.add(signature)
        _, right, wrong = BODIES[signature]
        others = [body for key, one in BODIES.items() if key != signature for body in one[1]]
        unfit = [*wrong, *(body for body in others if body not in right), "", "None", "x + 1"]
        assert [body for body in right if not re.search(row["reference"], f" {body}")] == []
        fits = [body for body in unfit if re.search(row["reference"], f" {body}")]
        # A right body under another function may be right here too: x * 2, and -b + a.
        assert [body for body in fits if body in wrong or not does(signature, body)] == []
        assert row["stop"] == ["\n"]
    assert len(seen) > 6


def test_every_function_that_may_be_asked_for_is_tried():
    assert [signature for signature, _, _ in _FUNCTIONS] == list(BODIES)
    for signature, _, bodies in _FUNCTIONS:
        assert [body for body in bodies if not does(signature, body)] == []


def test_the_right_condition_matches(release):
    turned = {">": "<", "<": ">", "=": "="}
    for row in rows_of(release["code"], "sql"):
        table = re.findall(r"FROM (\w+) WHERE", row["prompt"])[-1]
        column, words, value = re.findall(r"where (\w+) is (.+) (\d+)\n", row["prompt"])[-1]
        sign = {"more than": ">", "less than": "<", "equal to": "="}[words]
        for right in (
            f"{column} {sign} {value};",
            f"{column}{sign}{value}",
            f"{column.upper()} {sign} {value} ;",
            f"{table}.{column} {sign} {value};",
            f"({column} {sign} {value});",
            f"{value} {turned[sign]} {column};",
            f"{column} {sign} {value}; -- {words} {value}",
        ):
            assert re.search(row["reference"], f" {right}"), right
        for wrong in (
            f"{column} {sign} {value}0;",
            f"{column} {sign} {value}.5;",
            f"{column} {sign} -{value};",
            f"{column} != {value};",
            f"{column} {sign}= {value};" if sign != "=" else f"{column} >= {value};",
            f"{column} {sign} {value} OR 1 = 1;",
            f"{column} {sign} {value} AND size > 7;",
            f"NOT {column} {sign} {value};",
            f"last_{column} {sign} {value};",
            f"{column} + 1 {sign} {value};",
            f"{value} {sign} {column};" if sign != "=" else f"{column} < {value};",
            f"size {sign} {value};",
            "",
        ):
            assert not re.search(row["reference"], f" {wrong}"), wrong
        assert row["stop"] == ["\n"]


def test_only_python_is_python(release):
    for row in rows_of(release["code"], "language"):
        code = row["prompt"].split("?\n", 1)[1].removesuffix("\nAnswer:")
        if row["reference"] == "Python":
            compile(code, "row", "exec")
        else:
            with pytest.raises(SyntaxError):
                compile(code, "row", "exec")
