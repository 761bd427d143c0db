"""Patterns, order, place and time; hard ones are chains of steps that each need the one before."""

from __future__ import annotations

import random
from itertools import pairwise

from qpipe.evaluation.generators._draw import Draft, Template, pick, shots

__all__ = ["TEMPLATES"]

_NAMES = ("Alice", "Bob", "Carol", "Dan", "Eve", "Frank", "Gina", "Henry", "Iris", "Jack")
_THINGS = ("ball", "book", "coin", "cup", "hat", "key", "letter", "map", "phone", "ring")
_PLACES = ("bag", "basket", "box", "car", "desk", "drawer", "garden", "kitchen", "office", "pocket")
_COLOURS = ("black", "blue", "brown", "green", "orange", "pink", "purple", "red", "white", "yellow")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CHINESE_NAMES = ("小明", "小红", "小刚", "小丽", "小华", "小军")
_CHINESE_THINGS = ("书", "笔", "球", "花", "帽子", "钥匙")


def _row(prompt: str, reference: str, *tags: str) -> Draft:
    return {
        "prompt": prompt,
        "reference": reference,
        "scorer": "contains",
        "tags": list(tags),
        "max_tokens": 12,
        "stop": ["\n"],
    }


def _number(prompt: str, reference: int, *tags: str) -> Draft:
    return {**_row(prompt, "", *tags), "reference": reference, "scorer": "numeric"}


def _next(prompt: str, word: str, *tags: str) -> Draft:
    """A row whose answer starts with ``word``; one that goes on has more of the pattern."""
    pattern = rf"(?i)\A\W*{word}(?![\w-])"
    return {**_row(prompt, "", *tags), "reference": pattern, "scorer": "regex"}


def _alternate(rng: random.Random) -> Draft:
    a, b = pick(rng, _COLOURS, 2)
    return _next(f"Pattern: {a} {b} {a} {b} {a} {b} {a}", b, "pattern")


def _sequence(rng: random.Random) -> Draft:
    names = rng.choice((_DAYS, _MONTHS, _LETTERS))
    start = rng.randrange(len(names) - 4)
    shown = ", ".join(names[start : start + 4])
    return _next(f"Go on: {shown},", names[start + 4], "sequence")


def _where(rng: random.Random) -> Draft:
    thing, place = rng.choice(_THINGS), rng.choice(_PLACES)
    examples = [
        ("The pen is in the bath. Where is the pen?", "in the bath"),
        ("The lamp is in the shed. Where is the lamp?", "in the shed"),
    ]
    question = f"The {thing} is in the {place}. Where is the {thing}?"
    return _row(shots(examples, question), place, "lookup")


def _stated(rng: random.Random) -> Draft:
    thing, (real, other) = rng.choice(_THINGS), pick(rng, _COLOURS, 2)
    asked = rng.choice((real, other))
    examples = [
        ("The door is green. Is the door green?", "Yes"),
        ("The shoe is white. Is the shoe black?", "No"),
    ]
    answer = "Yes" if asked == real else "No"
    question = f"The {thing} is {real}. Is the {thing} {asked}?"
    return _row(shots(examples, question), answer, "yes-no")


def _who_has(rng: random.Random) -> Draft:
    (a, b), (x, y) = pick(rng, _NAMES, 2), pick(rng, _THINGS, 2)
    holder, asked = rng.choice(((a, x), (b, y)))
    examples = [
        ("Tom has the pen. Mia has the lamp. Who has the lamp?", "Mia"),
        ("Sam has the cake. Lea has the fork. Who has the cake?", "Sam"),
    ]
    question = f"{a} has the {x}. {b} has the {y}. Who has the {asked}?"
    return _row(shots(examples, question), holder, "lookup")


def _chinese_who_has(rng: random.Random) -> Draft:
    (a, b), (x, y) = pick(rng, _CHINESE_NAMES, 2), pick(rng, _CHINESE_THINGS, 2)
    holder, asked = rng.choice(((a, x), (b, y)))
    examples = [("小王有灯，小张有伞。谁有伞？", "小张"), ("小李有碗，小陈有刀。谁有碗？", "小李")]
    return _row(shots(examples, f"{a}有{x}，{b}有{y}。谁有{asked}？"), holder, "lookup", "zh")


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
    return _row(shots(examples, question), b, "state")


def _tallest(rng: random.Random) -> Draft:
    a, b, c = pick(rng, _NAMES, 3)
    word, answer = rng.choice((("tallest", a), ("shortest", c)))
    examples = [
        ("Tom is taller than Mia. Mia is taller than Sam. Who is the tallest?", "Tom"),
        ("Lea is taller than Kim. Kim is taller than Pat. Who is the shortest?", "Pat"),
    ]
    question = f"{a} is taller than {b}. {b} is taller than {c}. Who is the {word}?"
    return _row(shots(examples, question), answer, "order")


def _tomorrow(rng: random.Random) -> Draft:
    today = rng.randrange(7)
    word, shift = rng.choice((("tomorrow", 1), ("yesterday", -1)))
    verb = "will it be" if shift > 0 else "was it"
    examples = [
        ("Today is Monday. What day will it be tomorrow?", "Tuesday"),
        ("Today is Monday. What day was it yesterday?", "Sunday"),
    ]
    question = f"Today is {_DAYS[today]}. What day {verb} {word}?"
    return _row(shots(examples, question), _DAYS[(today + shift) % 7], "time")


def _chinese_older(rng: random.Random) -> Draft:
    a, b = pick(rng, _CHINESE_NAMES, 2)
    x, y = rng.sample(range(6, 40), 2)
    examples = [
        ("小王8岁，小张12岁。谁的年龄大？", "小张"),
        ("小李30岁，小陈20岁。谁的年龄大？", "小李"),
    ]
    question = f"{a}{x}岁，{b}{y}岁。谁的年龄大？"
    return _row(shots(examples, question), a if x > y else b, "order", "zh")


def _larger(rng: random.Random) -> Draft:
    a, b = rng.sample(range(10, 100), 2)
    examples = [("Which is larger, 12 or 45?", "45"), ("Which is larger, 80 or 31?", "80")]
    return _number(shots(examples, f"Which is larger, {a} or {b}?"), max(a, b), "order")


def _days_later(rng: random.Random) -> Draft:
    today, days = rng.randrange(7), rng.randint(2, 12)
    examples = [("Today is Tuesday. What day will it be in 3 days?", "Friday")]
    question = f"Today is {_DAYS[today]}. What day will it be in {days} days?"
    return _row(shots(examples, question), _DAYS[(today + days) % 7], "time")


def _days_chain(rng: random.Random) -> Draft:
    today = rng.randrange(7)
    steps = [rng.choice((1, -1)) * rng.randint(2, 6) for _ in range(6)]
    moves = " ".join(f"Then go {abs(step)} days {'on' if step > 0 else 'back'}." for step in steps)
    examples = [
        ("Start on Monday. Then go 3 days on. Then go 2 days back. Which day is it?", "Tuesday"),
        ("Start on Friday. Then go 5 days on. Then go 4 days on. Which day is it?", "Sunday"),
    ]
    question = f"Start on {_DAYS[today]}. {moves} Which day is it?"
    return _row(shots(examples, question), _DAYS[(today + sum(steps)) % 7], "time", "chain")


def _swaps(rng: random.Random) -> Draft:
    return _swapped(rng, 3, 2)


def _many_swaps(rng: random.Random) -> Draft:
    return _swapped(rng, 5, 9)


def _swapped(rng: random.Random, people: int, steps: int) -> Draft:
    """Ends with a swap of the one who is asked for."""
    names, things = pick(rng, _NAMES, people), pick(rng, _THINGS, people)
    held = dict(zip(names, things, strict=True))
    has = ", ".join(f"{name} has a {thing}" for name, thing in held.items())
    moves = []
    for _ in range(steps):
        first, second = pick(rng, names, 2)
        held[first], held[second] = held[second], held[first]
        moves.append(f"{first} and {second} swap.")
    asked = rng.choice((first, second))
    examples = [
        ("Tom has a pen, Mia has a lamp. Tom and Mia swap. What does Tom have now?", "lamp"),
    ]
    question = f"{has}. {' '.join(moves)} What does {asked} have now?"
    return _row(shots(examples, question), held[asked], "state", "chain")


def _chinese_swaps(rng: random.Random) -> Draft:
    return _chinese_swapped(rng, 3, 2)


def _chinese_many_swaps(rng: random.Random) -> Draft:
    return _chinese_swapped(rng, 5, 8)


def _chinese_swapped(rng: random.Random, people: int, steps: int) -> Draft:
    names, things = pick(rng, _CHINESE_NAMES, people), pick(rng, _CHINESE_THINGS, people)
    held = dict(zip(names, things, strict=True))
    has = "，".join(f"{name}有{thing}" for name, thing in held.items())
    moves = ""
    for _ in range(steps):
        first, second = pick(rng, names, 2)
        held[first], held[second] = held[second], held[first]
        moves += f"{first}和{second}交换。"
    asked = rng.choice((first, second))
    examples = [("小王有灯，小张有伞。小王和小张交换。现在小王有什么？", "伞")]
    question = f"{has}。{moves}现在{asked}有什么？"
    return _row(shots(examples, question), held[asked], "state", "chain", "zh")


def _order(rng: random.Random) -> Draft:
    return _ordered(rng, 4, ("tallest", "shortest"))


def _long_order(rng: random.Random) -> Draft:
    return _ordered(rng, 7, ("second tallest", "third tallest", "third shortest"))


_RANKS = {
    "tallest": 0,
    "second tallest": 1,
    "third tallest": 2,
    "third shortest": -3,
    "shortest": -1,
}


def _ordered(rng: random.Random, people: int, ranks: tuple[str, ...]) -> Draft:
    names, rank = pick(rng, _NAMES, people), rng.choice(ranks)
    said = [f"{a} is taller than {b}." for a, b in pairwise(names)]
    rng.shuffle(said)
    examples = [
        ("Mia is taller than Sam. Tom is taller than Mia. Who is the tallest?", "Tom"),
        (
            "Kim is taller than Pat. Pat is taller than Ron. Lea is taller than Kim. "
            "Who is the second tallest?",
            "Kim",
        ),
    ]
    question = f"{' '.join(said)} Who is the {rank}?"
    return _row(shots(examples, question), names[_RANKS[rank]], "order", "chain")


def _carried(rng: random.Random) -> Draft:
    name, (asked, other) = rng.choice(_NAMES), pick(rng, _THINGS, 2)
    places = pick(rng, _PLACES, 4)
    moves = [f"{name} moved the {other} to the {rng.choice(_PLACES)}."]
    moves += [f"{name} moved the {asked} to the {place}." for place in places[1:3]]
    # The other thing moves last or first, so that the last place named is no answer by itself.
    moves = moves[1:] + moves[:1] if rng.random() < 0.5 else moves
    examples = [
        (
            "Tom put the pen in the bath and the fork in the shed. Tom moved the pen to the hall. "
            "Tom moved the fork to the barn. Where is the pen?",
            "hall",
        )
    ]
    question = f"{name} put the {asked} in the {places[0]} and the {other} in the {places[3]}. "
    question += f"{' '.join(moves)} Where is the {asked}?"
    return _row(shots(examples, question), places[2], "state", "chain")


def _nested(rng: random.Random) -> Draft:
    """A thing in a nest of containers that go from room to room."""
    thing = rng.choice(("coin", "key", "ring", "map"))
    small, middle, large, decoy = pick(rng, ("bag", "basket", "box", "chest", "crate", "sack"), 4)
    rooms = pick(rng, ("attic", "cellar", "garden", "kitchen", "office", "porch", "study"), 5)
    where = {large: rooms[0], decoy: rooms[1]}
    inside = large
    moves = []
    for room in (rooms[2], rooms[3]):
        moved = rng.choice((large, decoy))
        where[moved] = room
        moves.append(f"The {moved} goes to the {room}.")
    if rng.random() < 0.5:
        inside = decoy
        moves.append(f"The {middle} is put into the {decoy}.")
    last = rng.choice((large, decoy))
    where[last] = rooms[4]
    moves.append(f"The {last} goes to the {rooms[4]}.")
    examples = [
        (
            "The pen is in the cup. The cup is in the tub. The tub is in the hall. "
            "The tub goes to the shed. In which room is the pen?",
            "shed",
        )
    ]
    question = (
        f"The {thing} is in the {small}. The {small} is in the {middle}. The {middle} is in the "
        f"{large}. The {large} is in the {rooms[0]}. The {decoy} is in the {rooms[1]}. "
        f"{' '.join(moves)} In which room is the {thing}?"
    )
    return _row(shots(examples, question), where[inside], "state", "chain")


def _transfers(rng: random.Random) -> Draft:
    return _transferred(rng, 2, 2)


def _many_transfers(rng: random.Random) -> Draft:
    return _transferred(rng, 4, 8)


def _transferred(rng: random.Random, people: int, steps: int) -> Draft:
    names = pick(rng, _NAMES, people)
    held = {name: rng.randint(5, 12) for name in names}
    has = ", ".join(f"{name} has {count} coins" for name, count in held.items())
    moves = []
    for _ in range(steps):
        giver = rng.choice([name for name in names if held[name] > 1])
        taker = rng.choice([name for name in names if name != giver])
        count = rng.randint(1, min(4, held[giver] - 1))
        held[giver] -= count
        held[taker] += count
        moves.append(f"{giver} gives {count} to {taker}.")
    asked = rng.choice(names)
    examples = [
        (
            "Tom has 6 coins, Mia has 3 coins. Tom gives 2 to Mia. Mia gives 1 to Tom. "
            "How many coins does Tom have now?",
            "5",
        )
    ]
    question = f"{has}. {' '.join(moves)} How many coins does {asked} have now?"
    return _number(shots(examples, question), held[asked], "state", "chain")


def _liars(rng: random.Random) -> Draft:
    """Who tells the truth follows from the first by as many steps as there are others."""
    names = pick(rng, _NAMES, 7)
    honest = rng.random() < 0.5
    said = [f"{names[0]} {'tells the truth' if honest else 'lies'}."]
    for subject, speaker in pairwise(names):
        truthful = rng.random() < 0.5
        claim = "tells the truth" if honest == truthful else "lies"
        said.append(f"{speaker} says that {subject} {claim}.")
        honest = truthful
    examples = [
        ("Tom lies. Mia says that Tom tells the truth. Does Mia tell the truth?", "No"),
        ("Sam lies. Lea says that Sam lies. Does Lea tell the truth?", "Yes"),
    ]
    question = f"{' '.join(said)} Does {names[-1]} tell the truth?"
    return _row(shots(examples, question), "Yes" if honest else "No", "yes-no", "chain")


TEMPLATES: tuple[Template, ...] = (
    Template("alternate", 1, _alternate),
    Template("where", 1, _where),
    Template("sequence", 1, _sequence),
    Template("stated", 1, _stated),
    Template("who-has", 2, _who_has),
    Template("who-has-zh", 2, _chinese_who_has),
    Template("moved", 2, _moved),
    Template("tallest", 2, _tallest),
    Template("larger", 2, _larger),
    Template("tomorrow", 2, _tomorrow),
    Template("older-zh", 2, _chinese_older),
    Template("swaps", 3, _swaps),
    Template("days-later", 3, _days_later),
    Template("order", 3, _order),
    Template("carried", 3, _carried),
    Template("transfers", 3, _transfers),
    Template("swaps-zh", 3, _chinese_swaps),
    Template("many-swaps", 4, _many_swaps),
    Template("long-order", 4, _long_order),
    Template("days-chain", 4, _days_chain),
    Template("nested", 4, _nested),
    Template("many-transfers", 4, _many_transfers),
    Template("liars", 4, _liars),
    Template("many-swaps-zh", 4, _chinese_many_swaps),
)
