"""Sums, sequences and word problems; the answer is the first number."""

from __future__ import annotations

import random

from qpipe.evaluation.generators._draw import Draft, Template, pick, shots

__all__ = ["TEMPLATES"]

_NAMES = ("Anna", "Ben", "Chloe", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jonas")
_THINGS = ("apples", "books", "coins", "cups", "eggs", "pens", "stamps", "tickets")
_CHINESE_THINGS = (("苹果", "个"), ("书", "本"), ("铅笔", "支"), ("橘子", "个"), ("杯子", "个"))


def _row(prompt: str, reference: int, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "numeric",
        "tags": list(tags),
        "max_tokens": 12,
        "stop": ["\n"],
    }


def _sum(solved: list[str], question: str, reference: int, *tags: str) -> Draft:
    """A row whose worked examples are solved sums, one above the other."""
    return _row("\n\n".join([*solved, question]), reference, *tags)


def _add_digits(rng: random.Random) -> Draft:
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    return _sum(["2 + 3 = 5", "6 + 1 = 7"], f"{a} + {b} =", a + b, "addition")


def _subtract_digits(rng: random.Random) -> Draft:
    a = rng.randint(3, 10)
    b = rng.randint(1, a - 1)
    return _sum(["9 - 5 = 4", "7 - 1 = 6"], f"{a} - {b} =", a - b, "subtraction")


def _next_number(rng: random.Random) -> Draft:
    step = rng.choice((1, 2, 5, 10))
    start = step * rng.randint(1, 20)
    shown = ", ".join(str(start + step * i) for i in range(5))
    return _row(f"Count on: {shown},", start + 5 * step, "sequence")


def _chinese_digits(rng: random.Random) -> Draft:
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    return _sum(["2加3等于5", "6加1等于7"], f"{a}加{b}等于", a + b, "addition", "zh")


def _add_two_digits(rng: random.Random) -> Draft:
    a, b = rng.randint(11, 79), rng.randint(11, 89)
    return _sum(["12 + 15 = 27", "38 + 24 = 62"], f"{a} + {b} =", a + b, "addition")


def _subtract_two_digits(rng: random.Random) -> Draft:
    a = rng.randint(30, 99)
    b = rng.randint(11, a - 5)
    return _sum(["67 - 25 = 42", "84 - 36 = 48"], f"{a} - {b} =", a - b, "subtraction")


def _buy_more(rng: random.Random) -> Draft:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    a, b = rng.randint(2, 12), rng.randint(2, 9)
    examples = [
        ("Tom has 2 hats and buys 3 more hats. How many hats does Tom have?", "5"),
        ("Mia has 6 keys and buys 2 more keys. How many keys does Mia have?", "8"),
    ]
    question = f"{name} has {a} {thing} and buys {b} more {thing}. "
    question += f"How many {thing} does {name} have?"
    return _row(shots(examples, question), a + b, "word-problem")


def _chinese_sum(rng: random.Random) -> Draft:
    thing, measure = rng.choice(_CHINESE_THINGS)
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    examples = [
        ("小明有2个梨，又买了3个。一共有几个？", "5"),
        ("小红有4张纸，又买了1张。一共有几张？", "5"),
    ]
    question = f"小李有{a}{measure}{thing}，又买了{b}{measure}。一共有几{measure}？"
    return _row(shots(examples, question), a + b, "word-problem", "zh")


def _multiply(rng: random.Random) -> Draft:
    a, b = rng.randint(2, 12), rng.randint(2, 9)
    return _sum(["3 x 4 = 12", "10 x 6 = 60"], f"{a} x {b} =", a * b, "multiplication")


def _two_steps(rng: random.Random) -> Draft:
    name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
    boxes, each = rng.randint(2, 6), rng.randint(2, 8)
    gone = rng.randint(1, boxes * each - 1)
    examples = [
        ("Tom has 2 boxes with 5 hats each and gives away 3 hats. How many hats are left?", "7")
    ]
    question = f"{name} has {boxes} boxes with {each} {thing} each and gives away {gone} {thing}. "
    question += f"How many {thing} are left?"
    return _row(shots(examples, question), boxes * each - gone, "word-problem")


def _chinese_change(rng: random.Random) -> Draft:
    thing, measure = rng.choice(_CHINESE_THINGS)
    price, count = rng.randint(3, 12), rng.randint(2, 8)
    examples = [("小王买了3个梨，每个4元，付了50元。应找回几元？", "38")]
    question = f"小李买了{count}{measure}{thing}，每{measure}{price}元，付了100元。应找回几元？"
    return _row(shots(examples, question), 100 - price * count, "word-problem", "zh")


def _precedence(rng: random.Random) -> Draft:
    a, b, c = rng.randint(11, 60), rng.randint(3, 12), rng.randint(3, 9)
    solved = ["12 + 3 x 5 = 27", "40 + 2 x 9 = 58"]
    return _sum(solved, f"{a} + {b} x {c} =", a + b * c, "expression")


def _fraction(rng: random.Random) -> Draft:
    parts = rng.randint(3, 9)
    share, whole = rng.randint(2, parts - 1), parts * rng.randint(3, 15)
    examples = [("What is 2/5 of 30?", "12"), ("What is 3/4 of 20?", "15")]
    question = f"What is {share}/{parts} of {whole}?"
    return _row(shots(examples, question), whole // parts * share, "fraction")


def _discount(rng: random.Random) -> Draft:
    price, percent = 20 * rng.randint(2, 15), rng.choice((5, 10, 15, 25, 50))
    count = rng.randint(2, 4)
    examples = [("A shirt costs $40. With 10% off, what do 2 shirts cost in dollars?", "72")]
    question = (
        f"A chair costs ${price}. With {percent}% off, what do {count} chairs cost in dollars?"
    )
    return _row(shots(examples, question), price * (100 - percent) * count // 100, "percent")


def _multiply_long(rng: random.Random) -> Draft:
    a, b = rng.randint(101, 989), rng.randint(13, 97)
    solved = ["112 x 21 = 2352", "304 x 45 = 13680"]
    return _sum(solved, f"{a} x {b} =", a * b, "multiplication")


def _brackets(rng: random.Random) -> Draft:
    a, b, c = rng.randint(12, 89), rng.randint(12, 89), rng.randint(4, 9)
    d, e = rng.randint(11, 25), rng.randint(4, 12)
    solved = ["(20 + 13) x 4 - 12 x 5 = 72", "(31 + 19) x 6 - 15 x 4 = 240"]
    value = (a + b) * c - d * e
    return _sum(solved, f"({a} + {b}) x {c} - {d} x {e} =", value, "expression")


def _stock(rng: random.Random) -> Draft:
    thing = rng.choice(_THINGS)
    start, boxes, each = rng.randint(40, 90), rng.randint(3, 9), rng.randint(6, 14)
    sold = rng.randint(11, 39)
    left = start + boxes * each - sold
    bought = 2 * rng.randint(8, 24) + left % 2
    examples = [
        (
            "A shop has 50 hats. It gets 4 boxes of 10 hats, sells 20 hats, then buys 30 more. "
            "It puts half of all its hats in the window. How many hats are in the window?",
            "50",
        )
    ]
    question = (
        f"A shop has {start} {thing}. It gets {boxes} boxes of {each} {thing}, sells {sold} "
        f"{thing}, then buys {bought} more. It puts half of all its {thing} in the window. "
        f"How many {thing} are in the window?"
    )
    return _row(shots(examples, question), (left + bought) // 2, "word-problem")


def _ages(rng: random.Random) -> Draft:
    a, b, c = pick(rng, _NAMES, 3)
    years, times, less, later = (
        rng.randint(4, 13),
        rng.randint(2, 4),
        rng.randint(2, 7),
        rng.randint(3, 15),
    )
    examples = [
        (
            "Tom is 5. Mia is 3 times as old as Tom. Sam is 4 years younger than Mia. "
            "How old are Mia and Sam together in 10 years?",
            "46",
        )
    ]
    question = (
        f"{a} is {years}. {b} is {times} times as old as {a}. {c} is {less} years younger than "
        f"{b}. How old are {b} and {c} together in {later} years?"
    )
    return _row(shots(examples, question), 2 * years * times - less + 2 * later, "word-problem")


def _chinese_sale(rng: random.Random) -> Draft:
    thing, measure = rng.choice(_CHINESE_THINGS)
    price, count = 10 * rng.randint(3, 12), rng.randint(3, 9)
    tenths, off = rng.randint(5, 9), 5 * rng.randint(2, 7)
    examples = [("帽子每个50元，打8折。买4个，再减20元，一共付多少元？", "140")]
    question = (
        f"{thing}每{measure}{price}元，打{tenths}折。买{count}{measure}，再减{off}元，"
        "一共付多少元？"
    )
    return _row(shots(examples, question), price * tenths * count // 10 - off, "word-problem", "zh")


TEMPLATES: tuple[Template, ...] = (
    Template("add-digits", 1, _add_digits),
    Template("next-number", 1, _next_number),
    Template("subtract-digits", 1, _subtract_digits),
    Template("add-digits-zh", 2, _chinese_digits),
    Template("buy-more", 2, _buy_more),
    Template("add-two-digits", 2, _add_two_digits),
    Template("buy-more-zh", 2, _chinese_sum),
    Template("multiply", 2, _multiply),
    Template("subtract-two-digits", 2, _subtract_two_digits),
    Template("two-steps", 3, _two_steps),
    Template("precedence", 3, _precedence),
    Template("change-zh", 3, _chinese_change),
    Template("fraction", 3, _fraction),
    Template("discount", 4, _discount),
    Template("multiply-long", 4, _multiply_long),
    Template("stock", 4, _stock),
    Template("brackets", 4, _brackets),
    Template("sale-zh", 4, _chinese_sale),
    Template("ages", 4, _ages),
)
