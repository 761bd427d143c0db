"""Python functions to write; judged by running asserts against what the model wrote."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qpipe.evaluation.generators._draw import Draft, Template

__all__ = ["TEMPLATES"]

_NAMES = ("apply", "compute", "convert", "do_task", "handle", "process", "run", "solve")
_EXAMPLES = (
    (
        "increment(x) returns x plus 1.",
        "def increment(x):\n    return x + 1",
    ),
    (
        "count_ones(items) returns how many items equal 1.",
        "def count_ones(items):\n    count = 0\n    for item in items:\n        if item == 1:\n"
        "            count += 1\n    return count",
    ),
)
_CHINESE_EXAMPLES = (("increment(x) 返回 x 加 1。", _EXAMPLES[0][1]),)


@dataclass(frozen=True)
class _Task:
    """What to write, with ``{k}`` and ``{m}`` for constants, and how to know that it is right."""

    parameter: str
    what: str
    solve: Callable[[Any, int, int], Any]
    inputs: Callable[[random.Random], Any]
    constants: tuple[tuple[int, int], tuple[int, int]] = ((2, 9), (2, 9))
    tokens: int = 96
    chinese: bool = False

    def __call__(self, rng: random.Random) -> Draft:
        name = rng.choice(_NAMES)
        k, m = (rng.randint(*bounds) for bounds in self.constants)
        head, verb = (
            ("写一个Python函数。", "返回")
            if self.chinese
            else (
                "Write the Python function.",
                "returns",
            )
        )
        examples = _CHINESE_EXAMPLES if self.chinese else _EXAMPLES
        blocks = [head, *(f"Task: {asked}\nAnswer:\n{answer}" for asked, answer in examples)]
        asked = f"{name}({self.parameter}) {verb} {self.what.format(k=k, m=m)}"
        return {
            "prompt": "\n\n".join([*blocks, f"Task: {asked}\nAnswer:"]),
            "reference": self._asserts(rng, name, k, m),
            "scorer": "code_tests",
            "tags": ["generation", *(["zh"] if self.chinese else [])],
            "max_tokens": self.tokens,
            "stop": ["\nTask:", "\n\n\n"],
        }

    def _asserts(self, rng: random.Random, name: str, k: int, m: int) -> str:
        """Six calls whose results are not all the same, so that no constant passes."""
        cases: dict[str, str] = {}
        while len(cases) < 6 or len(set(cases.values())) < 2:
            value = self.inputs(rng)
            cases[repr(value)] = repr(self.solve(value, k, m))
        return "\n".join(f"assert {name}({value}) == {right}" for value, right in cases.items())


def _integer(rng: random.Random) -> int:
    return rng.randint(-20, 60)


def _positive(rng: random.Random) -> int:
    return rng.randint(1, 40)


def _integers(rng: random.Random) -> list[int]:
    return [rng.randint(-9, 30) for _ in range(rng.choice((0, 1, 5, 7, 8)))]


def _some_integers(rng: random.Random) -> list[int]:
    return [rng.randint(-9, 30) for _ in range(rng.choice((10, 12, 14)))]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdeio") for _ in range(rng.randint(9, 14)))


def _sentence(rng: random.Random) -> str:
    return " ".join(
        "".join(rng.choice("abceot") for _ in range(rng.randint(1, 11)))
        for _ in range(rng.randint(0, 7))
    )


def _brackets(rng: random.Random) -> str:
    """Balanced text of up to five levels, in half of the cases with one sign spoilt."""
    text = ""
    for _ in range(rng.randint(1, 5)):
        left, right = rng.choice(("()", "[]"))
        text = rng.choice((f"{left}{text}{right}", f"{text}{left}{right}"))
    if rng.random() < 0.5:
        return text
    place = rng.randrange(len(text))
    return text[:place] + rng.choice("()[]") + text[place + 1 :]


def _intervals(rng: random.Random) -> list[tuple[int, int]]:
    starts = [rng.randint(0, 40) for _ in range(rng.randint(0, 6))]
    return [(start, start + rng.randint(1, 9)) for start in starts]


def _chunk_sums(items: list[int], k: int, _: int) -> list[int]:
    return [sum(items[start : start + k]) for start in range(0, len(items), k)]


def _runs(text: str, k: int, _: int) -> str:
    """Runs of more than ``k`` equal letters cut to ``k``."""
    kept = ""
    for letter in text:
        if not kept.endswith(letter * k):
            kept += letter
    return kept


def _run_text(rng: random.Random) -> str:
    return "".join(rng.choice("abc") * rng.randint(1, 9) for _ in range(rng.randint(0, 5)))


def _balanced(text: str, k: int, _: int) -> bool:
    open_ones: list[str] = []
    deepest = 0
    for sign in text:
        if sign in "([":
            open_ones.append(sign)
            deepest = max(deepest, len(open_ones))
        elif not open_ones or open_ones.pop() + sign not in ("()", "[]"):
            return False
    return not open_ones and deepest <= k


def _merged(intervals: list[tuple[int, int]], k: int, _: int) -> list[tuple[int, int]]:
    done: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if done and start - done[-1][1] <= k:
            done[-1] = (done[-1][0], max(done[-1][1], end))
        else:
            done.append((start, end))
    return done


def _window(items: list[int], k: int, _: int) -> int:
    return max(sum(items[start : start + k]) for start in range(len(items) - k + 1))


def _apart(items: list[int], k: int, _: int) -> int:
    """The largest sum of items that are at least ``k`` places apart."""
    best = [0] * (len(items) + 1)
    for index, item in enumerate(items):
        best[index + 1] = max(best[index], item + best[max(0, index + 1 - k)])
    return best[-1]


def _josephus(size: int, k: int, _: int) -> int:
    people, at = list(range(1, size + 1)), 0
    while len(people) > 1:
        at = (at + k - 1) % len(people)
        people.pop(at)
    return people[0]


def _base(value: int, k: int, _: int) -> str:
    digits = ""
    while value:
        value, digit = divmod(value, k)
        digits = str(digit) + digits
    return digits


_MODERATE = ((2, 4), (2, 9))
_TASKS: tuple[tuple[str, int, _Task], ...] = (
    ("write-add", 1, _Task("x", "x plus {k}.", lambda x, k, _: x + k, _integer, ((2, 99), (0, 0)))),
    (
        "write-multiply",
        1,
        _Task("x", "x times {k}.", lambda x, k, _: x * k, _integer, ((2, 99), (0, 0))),
    ),
    (
        "write-repeat",
        1,
        _Task("text", "the text repeated {k} times.", lambda t, k, _: t * k, _word),
    ),
    (
        "write-add-zh",
        1,
        _Task("x", "x 减 {k}。", lambda x, k, _: x - k, _integer, ((2, 99), (0, 0)), chinese=True),
    ),
    (
        "write-linear",
        2,
        _Task("x", "{k} times x, plus {m}.", lambda x, k, m: k * x + m, _integer),
    ),
    (
        "write-divides",
        2,
        _Task(
            "n",
            "True if n is divisible by {k} and greater than {m}, else False.",
            lambda n, k, m: n % k == 0 and n > m,
            _integer,
        ),
    ),
    (
        "write-start",
        2,
        _Task(
            "text",
            "the first {k} letters of text in upper case.",
            lambda t, k, _: t[:k].upper(),
            _word,
        ),
    ),
    (
        "write-clamp-zh",
        2,
        _Task(
            "x",
            "x 和 {k} 中较大的数。",
            lambda x, k, _: max(x, k),
            _integer,
            ((2, 50), (0, 0)),
            chinese=True,
        ),
    ),
    (
        "write-count",
        3,
        _Task(
            "items",
            "how many items are greater than {k}.",
            lambda i, k, _: sum(x > k for x in i),
            _integers,
            ((0, 25), (0, 0)),
        ),
    ),
    (
        "write-filter",
        3,
        _Task(
            "items",
            "a list of the items that are not divisible by {k}, each multiplied by {m}.",
            lambda i, k, m: [x * m for x in i if x % k],
            _integers,
        ),
    ),
    (
        "write-long-words",
        3,
        _Task(
            "text",
            "a list of the words of text (parted by spaces) that have at least {k} letters.",
            lambda t, k, _: [word for word in t.split() if len(word) >= k],
            _sentence,
        ),
    ),
    (
        "write-multiples",
        3,
        _Task(
            "n",
            "the sum of the whole numbers from 1 to n that are divisible by {k} or by {m}.",
            lambda n, k, m: sum(x for x in range(1, n + 1) if x % k == 0 or x % m == 0),
            _positive,
        ),
    ),
    (
        "write-chunks",
        4,
        _Task(
            "items",
            "a list with the sum of each group of {k} items in a row; the last group may be "
            "shorter.",
            _chunk_sums,
            _integers,
            _MODERATE,
            tokens=160,
        ),
    ),
    (
        "write-runs",
        4,
        _Task(
            "text",
            "text with every run of more than {k} equal letters cut to {k} of them.",
            _runs,
            _run_text,
            tokens=160,
        ),
    ),
    (
        "write-balanced",
        4,
        _Task(
            "text",
            "True if the round and square brackets in text are balanced and never nested deeper "
            "than {k}, else False.",
            _balanced,
            _brackets,
            ((1, 3), (1, 8)),
            tokens=224,
        ),
    ),
    (
        "write-merged",
        4,
        _Task(
            "intervals",
            "the list of (start, end) tuples, sorted, with all intervals merged whose gap is at "
            "most {k}.",
            _merged,
            _intervals,
            tokens=224,
        ),
    ),
    (
        "write-window",
        4,
        _Task(
            "items",
            "the largest sum of {k} items in a row; there are always at least {k} items.",
            _window,
            _some_integers,
            tokens=160,
        ),
    ),
    (
        "write-apart",
        4,
        _Task(
            "items",
            "the largest sum of items whose places are at least {k} apart; taking none gives 0.",
            _apart,
            _integers,
            _MODERATE,
            tokens=224,
        ),
    ),
    (
        "write-circle",
        4,
        _Task(
            "n",
            "who is left when n people, numbered from 1, stand in a circle and every {k}th one "
            "leaves, counting from person 1.",
            _josephus,
            _positive,
            ((4, 19), (0, 0)),
            tokens=224,
        ),
    ),
    (
        "write-base",
        4,
        _Task(
            "n",
            "the digits of the positive whole number n in base {k}, as text.",
            _base,
            _positive,
            tokens=160,
        ),
    ),
)

TEMPLATES: tuple[Template, ...] = tuple(Template(name, level, task) for name, level, task in _TASKS)
