"""Every task is solved a second time, in source text, and that passes the row's asserts."""

from __future__ import annotations

import re

import pytest

SOLUTIONS = {
    "write-add": "return x + {0}",
    "write-multiply": "return x * {0}",
    "write-repeat": "return ''.join([text] * {0})",
    "write-add-zh": "return x - {0}",
    "write-linear": "return {0} * x + {1}",
    "write-divides": "return n > {1} and not n % {0}",
    "write-start": "return text.upper()[0:{0}]",
    "write-clamp-zh": "return x if x > {0} else {0}",
    "write-count": "return len([x for x in items if x > {0}])",
    "write-filter": "return list(map(({1}).__mul__, filter(lambda x: x % {0} != 0, items)))",
    "write-long-words": "return [w for w in text.split() if len(w) > {0} - 1]",
    "write-multiples": "return sum({{*range({0}, n + 1, {0}), *range({1}, n + 1, {1})}})",
    "write-chunks": """
    sums = []
    for place, item in enumerate(items):
        if place % {0} == 0:
            sums.append(0)
        sums[-1] += item
    return sums""",
    "write-runs": """
    import re
    return re.sub(r'(.)\\1{{{0},}}', lambda found: found[1] * {0}, text)""",
    "write-balanced": """
    for _ in range({0}):
        # The innermost pairs are taken out, so one level is gone at a time.
        text = text.replace('()', '|').replace('[]', '|').replace('|', '')
    return not text""",
    "write-merged": """
    merged = []
    for interval in sorted(intervals):
        if merged and interval[0] <= merged[-1][1] + {0}:
            low, high = merged.pop()
            interval = (low, max(high, interval[1]))
        merged.append(interval)
    return merged""",
    "write-window": """
    best = current = sum(items[:{0}])
    for left, right in zip(items, items[{0}:]):
        current += right - left
        best = max(best, current)
    return best""",
    "write-apart": """
    from itertools import combinations
    places = range(len(items))
    return max(
        sum(items[place] for place in chosen)
        for size in range(len(items) + 1)
        for chosen in combinations(places, size)
        if all(b - a >= {0} for a, b in zip(chosen, chosen[1:]))
    )""",
    "write-circle": """
    left = 0
    for people in range(2, n + 1):
        left = (left + {0}) % people
    return left + 1""",
    "write-base": "return (n >= {0} and f(n // {0}) or '') + str(n % {0})",
}


def parts(row):
    template = row["tags"][0].removeprefix("template:")
    name, parameter, what = re.findall(r"Task: (\w+)\((\w+)\) (.*)\nAnswer:", row["prompt"])[-1]
    what = re.sub("from 1|person 1|gives 0", "", what)
    return template, name, parameter, list(dict.fromkeys(re.findall(r"\d+", what)))


def passes(source, row):
    space = {}
    exec(source, space)
    try:
        exec(row["reference"], space)
    except AssertionError:
        return False
    return True


def source(row, body):
    _, name, parameter, _ = parts(row)
    return f"def {name}({parameter}):\n    {body.strip()}\nf = {name}"


def test_a_right_solution_passes(release):
    for row in release["code-generation"]:
        template, _, _, numbers = parts(row)
        assert passes(source(row, SOLUTIONS[template].format(*numbers * 2)), row), row


@pytest.mark.parametrize("body", ["pass", "return 0", "return True", "return []", "return ''"])
def test_a_constant_does_not_pass(body, release):
    for row in release["code-generation"]:
        assert not passes(source(row, body), row), row


def test_handing_back_the_argument_does_not_pass(release):
    for row in release["code-generation"]:
        assert not passes(source(row, f"return {parts(row)[2]}"), row), row


def test_worked_examples_are_python(release):
    for row in release["code-generation"]:
        for block in row["prompt"].split("\n\n")[1:-1]:
            compile(block.split("\nAnswer:\n")[1], "example", "exec")
