"""Patterns, order, place and time, with the answer in one or two words."""

from __future__ import annotations

import random

from qpipe.evaluation.generators._draw import Draft, Maker, pick, shots

__all__ = ["MAKERS"]

_NAMES = ("Alice", "Bob", "Carol", "Dan", "Eve", "Frank", "Gina", "Henry", "Iris", "Jack")
_THINGS = ("ball", "book", "coin", "cup", "hat", "key", "letter", "map", "phone", "ring")
_PLACES = ("bag", "basket", "box", "car", "desk", "drawer", "garden", "kitchen", "office", "pocket")
_COLOURS = ("black", "blue", "brown", "green", "orange", "pink", "purple", "red", "white", "yellow")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CHINESE_NAMES = ("小明", "小红", "小刚", "小丽", "小华", "小军")


def _row(prompt: str, reference: str, level: int, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "contains",
        "tags": list(tags),
        "level": level,
        "max_tokens": 12,
        "stop": ["\n"],
    }


def _alternate(rng: random.Random) -> Draft:
    a, b = pick(rng, _COLOURS, 2)
    return _row(f"Pattern: {a} {b} {a} {b} {a} {b} {a}", b, 1, "pattern")


def _stated(rng: random.Random) -> Draft:
    thing, (real, other) = rng.choice(_THINGS), pick(rng, _COLOURS, 2)
    asked = rng.choice((real, other))
    examples = [
        ("The door is green. Is the door green?", "Yes"),
        ("The shoe is white. Is the shoe black?", "No"),
    ]
    answer = "Yes" if asked == real else "No"
    question = f"The {thing} is {real}. Is the {thing} {asked}?"
    return _row(shots(examples, question), answer, 1, "yes-no")


def _who_has(rng: random.Random) -> Draft:
    (a, b), (x, y) = pick(rng, _NAMES, 2), pick(rng, _THINGS, 2)
    holder, asked = rng.choice(((a, x), (b, y)))
    examples = [
        ("Tom has the pen. Mia has the lamp. Who has the lamp?", "Mia"),
        ("Sam has the cake. Lea has the fork. Who has the cake?", "Sam"),
    ]
    question = f"{a} has the {x}. {b} has the {y}. Who has the {asked}?"
    return _row(shots(examples, question), holder, 1, "lookup")


def _moved(rng: random.Random) -> Draft:
    name, thing, (a, b) = rng.choice(_NAMES), rng.choice(_THINGS), pick(rng, _PLACES, 2)
    examples = [
        (
            "Tom put the pen in the bath. Then Tom moved the pen to the shed. Where is the pen?",
            "shed",
        )
    ]
    question = f"{name} put the {thing} in the {a}. Then {name} moved the {thing} to the {b}. "
    question += f"Where is the {thing}?"
    return _row(shots(examples, question), b, 2, "state")


def _tallest(rng: random.Random) -> Draft:
    a, b, c = pick(rng, _NAMES, 3)
    word, answer = rng.choice((("tallest", a), ("shortest", c)))
    examples = [
        ("Tom is taller than Mia. Mia is taller than Sam. Who is the tallest?", "Tom"),
        ("Lea is taller than Kim. Kim is taller than Pat. Who is the shortest?", "Pat"),
    ]
    question = f"{a} is taller than {b}. {b} is taller than {c}. Who is the {word}?"
    return _row(shots(examples, question), answer, 2, "order")


def _tomorrow(rng: random.Random) -> Draft:
    today = rng.randrange(7)
    word, shift = rng.choice((("tomorrow", 1), ("yesterday", -1)))
    verb = "will it be" if shift > 0 else "was it"
    examples = [
        ("Today is Monday. What day will it be tomorrow?", "Tuesday"),
        ("Today is Monday. What day was it yesterday?", "Sunday"),
    ]
    question = f"Today is {_DAYS[today]}. What day {verb} {word}?"
    return _row(shots(examples, question), _DAYS[(today + shift) % 7], 2, "time")


def _chinese_older(rng: random.Random) -> Draft:
    a, b = pick(rng, _CHINESE_NAMES, 2)
    x, y = rng.sample(range(6, 40), 2)
    examples = [
        ("小王8岁，小张12岁。谁的年龄大？", "小张"),
        ("小李30岁，小陈20岁。谁的年龄大？", "小李"),
    ]
    question = f"{a}{x}岁，{b}{y}岁。谁的年龄大？"
    return _row(shots(examples, question), a if x > y else b, 2, "order", "zh")


def _larger(rng: random.Random) -> Draft:
    a, b = rng.sample(range(10, 100), 2)
    examples = [("Which is larger, 12 or 45?", "45"), ("Which is larger, 80 or 31?", "80")]
    draft = _row(shots(examples, f"Which is larger, {a} or {b}?"), "", 2, "order")
    return {**draft, "reference": max(a, b), "scorer": "numeric"}


def _days_later(rng: random.Random) -> Draft:
    today, days = rng.randrange(7), rng.randint(2, 12)
    examples = [("Today is Tuesday. What day will it be in 3 days?", "Friday")]
    question = f"Today is {_DAYS[today]}. What day will it be in {days} days?"
    level = 3 if days < 7 else 4
    return _row(shots(examples, question), _DAYS[(today + days) % 7], level, "time")


def _swaps(rng: random.Random) -> Draft:
    (a, b, c), (x, y, z) = pick(rng, _NAMES, 3), pick(rng, _THINGS, 3)
    held = {a: x, b: y, c: z}
    moves = []
    for _ in range(2):
        first, second = pick(rng, (a, b, c), 2)
        held[first], held[second] = held[second], held[first]
        moves.append(f"{first} and {second} swap.")
    asked = rng.choice((a, b, c))
    examples = [
        ("Tom has a pen, Mia has a lamp. Tom and Mia swap. What does Tom have now?", "lamp"),
    ]
    question = f"{a} has a {x}, {b} has a {y}, {c} has a {z}. {' '.join(moves)} "
    question += f"What does {asked} have now?"
    return _row(shots(examples, question), held[asked], 3, "state")


MAKERS: tuple[Maker, ...] = (
    _alternate,
    _stated,
    _moved,
    _tallest,
    _who_has,
    _tomorrow,
    _larger,
    _days_later,
    _chinese_older,
    _swaps,
)
