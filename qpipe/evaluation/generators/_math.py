"""Sums, sequences and short word problems; the answer is the first number."""

from __future__ import annotations

import random

from qpipe.evaluation.generators._draw import Draft, Maker, shots

__all__ = ["MAKERS"]

_NAMES = ("Anna", "Ben", "Chloe", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jonas")
_THINGS = ("apples", "books", "coins", "cups", "eggs", "pens", "stamps", "tickets")
_CHINESE_THINGS = (("苹果", "个"), ("书", "本"), ("铅笔", "支"), ("橘子", "个"), ("杯子", "个"))


def _row(prompt: str, reference: int, level: int, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "numeric",
        "tags": list(tags),
        "level": level,
        "max_tokens": 12,
        "stop": ["\n"],
    }


def _sum(solved: list[str], question: str, reference: int, level: int, *tags: str) -> Draft:
    """A row whose worked examples are solved sums, one above the other."""
    return _row("\n\n".join([*solved, question]), reference, level, *tags)


def _add_digits(rng: random.Random) -> Draft:
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    return _sum(["2 + 3 = 5", "6 + 1 = 7"], f"{a} + {b} =", a + b, 1, "addition")


def _subtract_digits(rng: random.Random) -> Draft:
    a = rng.randint(3, 10)
    b = rng.randint(1, a - 1)
    return _sum(["9 - 5 = 4", "7 - 1 = 6"], f"{a} - {b} =", a - b, 1, "subtraction")


def _next_number(rng: random.Random) -> Draft:
    step = rng.choice((1, 2, 5, 10))
    start = step * rng.randint(1, 8)
    shown = ", ".join(str(start + step * i) for i in range(5))
    return _row(f"Count on: {shown},", start + 5 * step, 1, "sequence")


def _add_two_digits(rng: random.Random) -> Draft:
    a, b = rng.randint(11, 79), rng.randint(11, 89)
    return _sum(["12 + 15 = 27", "38 + 24 = 62"], f"{a} + {b} =", a + b, 2, "addition")


def _buy_more(rng: random.Random) -> Draft:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    a, b = rng.randint(2, 12), rng.randint(2, 9)
    examples = [
        ("Tom has 2 hats and buys 3 more hats. How many hats does Tom have?", "5"),
        ("Mia has 6 keys and buys 2 more keys. How many keys does Mia have?", "8"),
    ]
    question = f"{name} has {a} {thing} and buys {b} more {thing}. "
    question += f"How many {thing} does {name} have?"
    return _row(shots(examples, question), a + b, 2, "word-problem")


def _chinese_sum(rng: random.Random) -> Draft:
    thing, measure = rng.choice(_CHINESE_THINGS)
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    examples = [
        ("小明有2个梨，又买了3个。一共有几个？", "5"),
        ("小红有4张纸，又买了1张。一共有几张？", "5"),
    ]
    question = f"小李有{a}{measure}{thing}，又买了{b}{measure}。一共有几{measure}？"
    return _row(shots(examples, question), a + b, 2, "word-problem", "zh")


def _multiply(rng: random.Random) -> Draft:
    a, b = rng.randint(2, 12), rng.randint(2, 9)
    return _sum(["3 x 4 = 12", "10 x 6 = 60"], f"{a} x {b} =", a * b, 2, "multiplication")


def _two_steps(rng: random.Random) -> Draft:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    boxes, each = rng.randint(2, 6), rng.randint(2, 8)
    gone = rng.randint(1, boxes * each - 1)
    examples = [
        ("Tom has 2 boxes with 5 hats each and gives away 3 hats. How many hats are left?", "7")
    ]
    question = f"{name} has {boxes} boxes with {each} {thing} each and gives away {gone} {thing}. "
    question += f"How many {thing} are left?"
    return _row(shots(examples, question), boxes * each - gone, 3, "word-problem")


def _discount(rng: random.Random) -> Draft:
    price, percent = 20 * rng.randint(2, 15), rng.choice((5, 10, 15, 25, 50))
    count = rng.randint(2, 4)
    examples = [("A shirt costs $40. With 10% off, what do 2 shirts cost in dollars?", "72")]
    question = (
        f"A chair costs ${price}. With {percent}% off, what do {count} chairs cost in dollars?"
    )
    return _row(shots(examples, question), price * (100 - percent) * count // 100, 4, "percent")


MAKERS: tuple[Maker, ...] = (
    _add_digits,
    _next_number,
    _buy_more,
    _add_two_digits,
    _subtract_digits,
    _chinese_sum,
    _multiply,
    _two_steps,
    _next_number,
    _discount,
)
