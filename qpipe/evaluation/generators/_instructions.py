"""Texts to write under constraints that can be checked; the score is the share that is met."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from qpipe.evaluation.generators._draw import Draft, Template, pick, shots

__all__ = ["TEMPLATES"]

_WORDS = (
    "apple", "bread", "bridge", "candle", "garden", "honey", "island", "kitchen", "lantern",
    "market", "mirror", "mountain", "orange", "paper", "river", "silver", "stone", "summer",
    "window", "winter",
)  # fmt: skip
_ANIMALS = ("bear", "camel", "duck", "fox", "goat", "horse", "lion", "mouse", "owl", "rabbit")
_LOOKS = ("big", "brave", "happy", "hungry", "lazy", "old", "quiet", "small", "tired", "young")
_NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Hugo", "Ines", "Jonas")
_KINDS = (
    "animals", "birds", "cities", "colours", "countries", "drinks", "flowers", "fruits", "games",
    "jobs", "tools", "vegetables",
)  # fmt: skip
_CHINESE = (
    "春天",
    "朋友",
    "学校",
    "河水",
    "火车",
    "老师",
    "月亮",
    "花园",
    "苹果",
    "雨伞",
    "妈妈",
    "城市",
)
_CHINESE_NAMES = ("王芳", "李伟", "张敏", "刘洋", "陈静", "杨帆")
_RUSSIAN = ("вода", "город", "дом", "друг", "зима", "книга", "лес", "море", "небо", "хлеб")

Constraint = dict[str, Any]


def _row(
    prompt: str, constraints: Sequence[Constraint], tokens: int, *tags: str, stop: str = "\n"
) -> Draft:
    """A row; where an answer has many lines, the next instruction ends it, not an empty line."""
    return {
        "prompt": prompt,
        "reference": list(constraints),
        "scorer": "constraints",
        "tags": list(tags),
        "max_tokens": tokens,
        "stop": [stop],
    }


def _is(kind: str, **values: Any) -> Constraint:
    return {"kind": kind, **values}


def _includes(*texts: str) -> list[Constraint]:
    return [_is("includes", text=text) for text in texts]


def _repeat(rng: random.Random) -> Draft:
    word, count = rng.choice(_WORDS), rng.randint(2, 5)
    examples = [
        ("Write the word 'tea' 2 times.", "tea tea"),
        ("Write the word 'milk' 4 times.", "milk milk milk milk"),
    ]
    prompt = shots(examples, f"Write the word '{word}' {count} times.")
    return _row(prompt, [_is("repeats", text=word, n=count)], 16, "repeats")


def _capitals(rng: random.Random) -> Draft:
    text = f"the {rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}"
    examples = [
        ("Write in capital letters: the red cup", "THE RED CUP"),
        ("Write in capital letters: the tall man", "THE TALL MAN"),
    ]
    prompt = shots(examples, f"Write in capital letters: {text}")
    return _row(prompt, [_is("upper_case"), *_includes(text.upper())], 12, "case")


def _start(rng: random.Random) -> Draft:
    text = f"The {rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}"
    examples = [
        ("Write a sentence that starts with 'The red cup'.", "The red cup is on the table."),
        ("Write a sentence that starts with 'The tall man'.", "The tall man went home."),
    ]
    prompt = shots(examples, f"Write a sentence that starts with '{text}'.")
    return _row(prompt, [_is("starts_with", text=text)], 24, "start")


def _include(rng: random.Random) -> Draft:
    animal, word = rng.choice(_ANIMALS), rng.choice(_WORDS)
    examples = [
        ("Write a sentence about a cow with the word 'milk'.", "The cow gives us milk."),
        ("Write a sentence about a bird with the word 'tree'.", "The bird sings in the tree."),
    ]
    prompt = shots(examples, f"Write a sentence about a {animal} with the word '{word}'.")
    return _row(prompt, _includes(word), 24, "words")


def _bullets(rng: random.Random) -> Draft:
    kind, count = rng.choice(_KINDS), rng.randint(2, 5)
    examples = [
        ("List 2 trees, each on a line that starts with '- '.", "\n- oak\n- pine"),
        ("List 3 metals, each on a line that starts with '- '.", "\n- iron\n- gold\n- tin"),
    ]
    prompt = shots(examples, f"List {count} {kind}, each on a line that starts with '- '.")
    return _row(prompt, [_is("bullets", n=count)], 40, "bullets", stop="\n\nList")


def _end(rng: random.Random) -> Draft:
    text = f"near the {rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}."
    examples = [
        ("Write a sentence that ends with 'in the red cup.'", "The tea is in the red cup."),
        ("Write a sentence that ends with 'by the sea.'", "We lived in a house by the sea."),
    ]
    prompt = shots(examples, f"Write a sentence that ends with '{text}'")
    return _row(prompt, [_is("ends_with", text=text)], 24, "end")


def _brief(rng: random.Random) -> Draft:
    animal, count = f"{rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}", rng.randint(6, 9)
    examples = [
        ("Write a sentence of at most 6 words about a red cup.", "The red cup is new."),
        ("Write a sentence of at most 8 words about a tall man.", "A tall man walks by the sea."),
    ]
    prompt = shots(examples, f"Write a sentence of at most {count} words about a {animal}.")
    constraints = [_is("words_at_most", n=count), *_includes(animal)]
    return _row(prompt, constraints, 32, "length", "words")


def _small_letters(rng: random.Random) -> Draft:
    text = f"{rng.choice(_NAMES)} And The {rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}".upper()
    examples = [
        ("Write in small letters: TOM AND THE RED CUP", "tom and the red cup"),
        ("Write in small letters: MIA AND THE TALL MAN", "mia and the tall man"),
    ]
    prompt = shots(examples, f"Write in small letters: {text}")
    return _row(prompt, [_is("lower_case"), *_includes(text.lower())], 16, "case")


def _chinese_include(rng: random.Random) -> Draft:
    a, b = pick(rng, _CHINESE, 2)
    examples = [("用中文写一句话，要有“牛奶”和“早上”。", "我早上喝牛奶。")]
    prompt = shots(examples, f"用中文写一句话，要有“{a}”和“{b}”。")
    return _row(prompt, [_is("language", script="Han"), *_includes(a, b)], 48, "words", "zh")


def _json(rng: random.Random) -> Draft:
    name, age, animal = rng.choice(_NAMES), rng.randint(11, 89), rng.choice(_ANIMALS)
    examples = [
        (
            "Write a JSON object with the keys 'name', 'age' and 'pet': Tom is 31 and has a cat.",
            '{"name": "Tom", "age": 31, "pet": "cat"}',
        )
    ]
    question = "Write a JSON object with the keys 'name', 'age' and 'pet': "
    question += f"{name} is {age} and has a {animal}."
    wanted = _includes('"name"', '"age"', '"pet"', name, str(age), animal)
    return _row(shots(examples, question), [_is("json"), *wanted], 40, "json")


def _lines(rng: random.Random) -> Draft:
    word, count = rng.choice(_WORDS), rng.randint(3, 5)
    topic = rng.choice(_ANIMALS)
    examples = [
        (
            "Write 2 lines about a cow, all in small letters, with the word 'milk'.",
            "\nthe cow stands on the hill\nand gives us fresh milk",
        )
    ]
    question = f"Write {count} lines about a {topic}, all in small letters, with the word '{word}'."
    constraints = [_is("lines", n=count), _is("lower_case"), *_includes(word)]
    return _row(shots(examples, question), constraints, 72, "lines", "case", stop="\n\nWrite")


def _window(rng: random.Random) -> Draft:
    (a, b), least = pick(rng, _WORDS, 2), rng.randint(8, 14)
    examples = [
        (
            "Write a sentence of 8 to 12 words with 'milk' and 'tree' and without any comma.",
            "The boy drank his milk under the old tree.",
        )
    ]
    question = f"Write a sentence of {least} to {least + 4} words with '{a}' and '{b}' and without "
    constraints = [
        _is("words_at_least", n=least),
        _is("words_at_most", n=least + 4),
        _is("excludes", text=","),
        *_includes(a, b),
    ]
    return _row(shots(examples, f"{question}any comma."), constraints, 48, "length", "words")


def _shout(rng: random.Random) -> Draft:
    start = f"The {rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}".upper()
    word, count = rng.choice(_WORDS).upper(), rng.randint(8, 12)
    examples = [
        (
            "Write a sentence of at most 9 words, all in capital letters, that starts with "
            "'THE RED CUP' and has the word 'MILK'.",
            "THE RED CUP IS FULL OF MILK.",
        )
    ]
    question = (
        f"Write a sentence of at most {count} words, all in capital letters, that starts with "
        f"'{start}' and has the word '{word}'."
    )
    constraints = [
        _is("upper_case"),
        _is("starts_with", text=start),
        _is("words_at_most", n=count),
        *_includes(word),
    ]
    return _row(shots(examples, question), constraints, 40, "case", "start")


def _russian(rng: random.Random) -> Draft:
    a, b = pick(rng, _RUSSIAN, 2)
    examples = [
        ("Write a sentence in Russian with 'кот' and 'молоко'.", "Мой кот любит молоко."),
    ]
    prompt = shots(examples, f"Write a sentence in Russian with '{a}' and '{b}'.")
    constraints = [_is("language", script="Cyrillic"), *_includes(a, b)]
    return _row(prompt, constraints, 48, "language")


def _chinese_lines(rng: random.Random) -> Draft:
    a, count = rng.choice(_CHINESE), rng.randint(2, 4)
    start = rng.choice(("今天", "早上", "晚上", "夏天", "周末"))
    examples = [
        ("用中文写2行，以“昨天”开头，要有“牛奶”，不要用逗号。", "\n昨天我喝了牛奶\n味道很好")
    ]
    question = f"用中文写{count}行，以“{start}”开头，要有“{a}”，不要用逗号。"
    constraints = [
        _is("lines", n=count),
        _is("language", script="Han"),
        _is("starts_with", text=start),
        _is("excludes", text="，"),
        *_includes(a),
    ]
    return _row(shots(examples, question), constraints, 96, "lines", "zh", stop="\n\n用中文")


def _letter(rng: random.Random) -> Draft:
    (to, by), (a, b) = pick(rng, _NAMES, 2), pick(rng, _WORDS, 2)
    count, most = rng.randint(4, 6), 5 * rng.randint(7, 10)
    examples = [
        (
            "Write a letter of 4 lines and at most 30 words. Start with 'Dear Tom,' and end with "
            "'Yours, Mia'. Use 'milk' and 'tree'. Do not use 'very' or '!'.",
            "\nDear Tom,\nthe milk you sent was good.\nI drank it under the tree.\nYours, Mia",
        )
    ]
    question = (
        f"Write a letter of {count} lines and at most {most} words. Start with 'Dear {to},' and "
        f"end with 'Yours, {by}'. Use '{a}' and '{b}'. Do not use 'very' or '!'."
    )
    constraints = [
        _is("lines", n=count),
        _is("words_at_most", n=most),
        _is("starts_with", text=f"Dear {to},"),
        _is("ends_with", text=f"Yours, {by}"),
        *_includes(a, b),
        _is("excludes", text="very"),
        _is("excludes", text="!"),
    ]
    return _row(
        shots(examples, question), constraints, 128, "lines", "start", "end", stop="\n\nWrite"
    )


def _long_bullets(rng: random.Random) -> Draft:
    (a, b), count = pick(rng, _WORDS, 2), rng.randint(4, 7)
    kind, most = rng.choice(_KINDS), 6 * count
    examples = [
        (
            "Write 3 facts about metals, each on a line that starts with '- ', all in capital "
            "letters, with 'MILK' and 'TREE', in at most 24 words and without any comma.",
            "\n- IRON IS HARDER THAN A TREE\n- TIN HOLDS MILK\n- GOLD DOES NOT RUST",
        )
    ]
    question = (
        f"Write {count} facts about {kind}, each on a line that starts with '- ', all in capital "
        f"letters, with '{a.upper()}' and '{b.upper()}', in at most {most} words and without any "
        "comma."
    )
    constraints = [
        _is("bullets", n=count),
        _is("lines", n=count),
        _is("upper_case"),
        *_includes(a.upper(), b.upper()),
        _is("words_at_most", n=most),
        _is("excludes", text=","),
    ]
    return _row(shots(examples, question), constraints, 128, "bullets", "case", stop="\n\nWrite")


def _frame(rng: random.Random) -> Draft:
    (a, b, c), times = pick(rng, _WORDS, 3), rng.randint(3, 5)
    start, least = f"The {rng.choice(_LOOKS)} {rng.choice(_ANIMALS)}", rng.randint(18, 26)
    examples = [
        (
            "Write one line of at least 12 words that starts with 'The red cup' and ends with "
            "'the milk.' Use the word 'tree' exactly 2 times. Use 'paint'. Do not use commas.",
            "The red cup fell from one tree to the next tree because paint had spoilt the milk.",
        )
    ]
    question = (
        f"Write one line of at least {least} words that starts with '{start}' and ends with "
        f"'the {a}.' Use the word '{b}' exactly {times} times. Use '{c}'. Do not use commas."
    )
    constraints = [
        _is("lines", n=1),
        _is("words_at_least", n=least),
        _is("starts_with", text=start),
        _is("ends_with", text=f"the {a}."),
        _is("repeats", text=b, n=times),
        *_includes(c),
        _is("excludes", text=","),
    ]
    return _row(shots(examples, question), constraints, 96, "repeats", "start", "end")


def _strict_json(rng: random.Random) -> Draft:
    keys, (name, other) = pick(rng, _WORDS, 3), pick(rng, _NAMES, 2)
    number, most = rng.randint(11, 89), rng.randint(10, 14)
    examples = [
        (
            "Write a JSON object with the keys 'tea', 'tree' and 'milk', in small letters only, of "
            "at most 12 words. One value is 17, one is 'tom and mia'. Do not use 'null'.",
            '{"tea": 17, "tree": "tom and mia", "milk": "cold"}',
        )
    ]
    question = (
        f"Write a JSON object with the keys '{keys[0]}', '{keys[1]}' and '{keys[2]}', in small "
        f"letters only, of at most {most} words. One value is {number}, one is "
        f"'{name.lower()} and {other.lower()}'. Do not use 'null'."
    )
    constraints = [
        _is("json"),
        _is("lower_case"),
        *_includes(*(f'"{key}"' for key in keys)),
        *_includes(str(number), f"{name} and {other}".lower()),
        _is("words_at_most", n=most),
        _is("excludes", text="null"),
    ]
    return _row(shots(examples, question), constraints, 64, "json", "case")


def _chinese_letter(rng: random.Random) -> Draft:
    (to, by), (a, b) = pick(rng, _CHINESE_NAMES, 2), pick(rng, _CHINESE, 2)
    count = rng.randint(4, 6)
    examples = [
        (
            "用中文写一封信，共4行，以“赵强：”开头，以“孙丽”结尾，要有“牛奶”和“早上”，"
            "不要用“非常”和感叹号。",
            "\n赵强：\n今天早上我喝了牛奶。\n下次我们一起喝吧。\n孙丽",
        )
    ]
    question = (
        f"用中文写一封信，共{count}行，以“{to}：”开头，以“{by}”结尾，要有“{a}”和“{b}”，"
        "不要用“非常”和感叹号。"
    )
    constraints = [
        _is("lines", n=count),
        _is("language", script="Han"),
        _is("starts_with", text=f"{to}："),
        _is("ends_with", text=by),
        *_includes(a, b),
        _is("excludes", text="非常"),
        _is("excludes", text="！"),
    ]
    return _row(shots(examples, question), constraints, 160, "lines", "zh", stop="\n\n用中文")


TEMPLATES: tuple[Template, ...] = (
    Template("repeat", 1, _repeat),
    Template("start", 1, _start),
    Template("capitals", 1, _capitals),
    Template("include", 2, _include),
    Template("bullets", 2, _bullets),
    Template("end", 2, _end),
    Template("include-zh", 2, _chinese_include),
    Template("brief", 2, _brief),
    Template("small-letters", 2, _small_letters),
    Template("json", 3, _json),
    Template("lines", 3, _lines),
    Template("lines-zh", 3, _chinese_lines),
    Template("window", 3, _window),
    Template("shout", 3, _shout),
    Template("russian", 3, _russian),
    Template("letter", 4, _letter),
    Template("long-bullets", 4, _long_bullets),
    Template("letter-zh", 4, _chinese_letter),
    Template("frame", 4, _frame),
    Template("strict-json", 4, _strict_json),
)
