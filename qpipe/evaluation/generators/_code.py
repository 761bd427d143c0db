"""Python to run in the head or to complete; SQL to complete; languages to tell apart."""

from __future__ import annotations

import random

from qpipe.evaluation.generators._draw import Draft, Maker, pick, shots

__all__ = ["MAKERS"]

_WORDS = (
    "apple",
    "bird",
    "cloud",
    "door",
    "fish",
    "green",
    "house",
    "lemon",
    "moon",
    "river",
    "sun",
)
_VARIABLES = ("a", "count", "n", "size", "total", "x", "y")
_FUNCTIONS = (
    ("add(a, b)", "the sum of a and b", r"a\s*\+\s*b|b\s*\+\s*a|sum\("),
    ("subtract(a, b)", "a minus b", r"a\s*-\s*b"),
    ("multiply(a, b)", "the product of a and b", r"a\s*\*\s*b|b\s*\*\s*a"),
    ("square(x)", "x squared", r"x\s*\*\s*x|x\s*\*\*\s*2|pow\(x"),
    ("double(x)", "two times x", r"2\s*\*\s*x|x\s*\*\s*2|x\s*\+\s*x"),
    ("is_even(n)", "whether n is even", r"n\s*%\s*2\s*==\s*0|not n\s*%\s*2"),
    ("first(items)", "the first item", r"items\[0\]"),
    ("last(items)", "the last item", r"items\[-1\]|items\[len\(items\)\s*-\s*1\]"),
    ("length(items)", "how many items there are", r"len\(items\)"),
    ("upper(text)", "the text in upper case", r"text\.upper\(\)"),
    ("larger(a, b)", "the larger of a and b", r"max\(|a if a >=? b|b if b >=? a"),
    ("negate(x)", "minus x", r"-\s*x|x\s*\*\s*-\s*1"),
)
_SNIPPETS = (
    ("Python", "def main():\n    print('start')"),
    ("Python", "import os\nprint(os.getcwd())"),
    ("Python", "for i in range(10):\n    total += i"),
    ("JavaScript", "const x = 5;\nconsole.log(x);"),
    ("JavaScript", "let names = [];\nnames.forEach(n => alert(n));"),
    ("SQL", "SELECT name FROM users WHERE age > 30;"),
    ("SQL", "INSERT INTO orders VALUES (1, 'tea');"),
    ("HTML", "<div><p>Hello</p></div>"),
    ("HTML", "<ul><li>one</li><li>two</li></ul>"),
    ("C", '#include <stdio.h>\nint main() { printf("hi"); }'),
    ("C", "int *p = malloc(sizeof(int));\nfree(p);"),
)
_LANGUAGES = ("Python", "JavaScript", "SQL", "HTML", "C")


def _output(
    examples: list[tuple[str, str]], code: str, reference: str, level: int, *tags: str
) -> Draft:
    return {
        "prompt": shots(examples, code, "What does this Python code print?"),
        "reference": reference,
        "scorer": "exact",
        "tags": ["output", *tags],
        "level": level,
        "max_tokens": 12,
        "stop": ["\n"],
    }


def _print_variable(rng: random.Random) -> Draft:
    name, value = rng.choice(_VARIABLES), rng.randint(2, 99)
    examples = [("k = 4\nprint(k)", "4"), ("w = 31\nprint(w)", "31")]
    return _output(examples, f"{name} = {value}\nprint({name})", str(value), 1)


def _print_word(rng: random.Random) -> Draft:
    word = rng.choice(_WORDS)
    examples = [("print('tree')", "tree"), ("print('hello')", "hello")]
    return _output(examples, f"print('{word}')", word, 1)


def _print_sum(rng: random.Random) -> Draft:
    (first, second), a, b = pick(rng, _VARIABLES, 2), rng.randint(1, 9), rng.randint(1, 9)
    examples = [("k = 2\nw = 3\nprint(k + w)", "5"), ("i = 4\nj = 4\nprint(i + j)", "8")]
    code = f"{first} = {a}\n{second} = {b}\nprint({first} + {second})"
    return _output(examples, code, str(a + b), 2)


def _print_item(rng: random.Random) -> Draft:
    words, index = pick(rng, _WORDS, 3), rng.randrange(3)
    examples = [("w = ['tree', 'cat', 'milk']\nprint(w[1])", "cat")]
    shown = ", ".join(f"'{word}'" for word in words)
    return _output(examples, f"w = [{shown}]\nprint(w[{index}])", words[index], 2, "list")


def _print_length(rng: random.Random) -> Draft:
    word = rng.choice(_WORDS)
    examples = [("print(len('cat'))", "3"), ("print(len('orange'))", "6")]
    return _output(examples, f"print(len('{word}'))", str(len(word)), 2, "string")


def _print_loop(rng: random.Random) -> Draft:
    start, stop, step = rng.randint(0, 3), rng.randint(4, 7), rng.randint(1, 3)
    examples = [("t = 0\nfor i in range(1, 4):\n    t += i\nprint(t)", "6")]
    code = f"t = 0\nfor i in range({start}, {stop}):\n    t += i * {step}\nprint(t)"
    reference = str(sum(i * step for i in range(start, stop)))
    return _output(examples, code, reference, 3, "loop")


def _print_branch(rng: random.Random) -> Draft:
    value, limit, (yes, no) = rng.randint(1, 20), rng.randint(1, 20), pick(rng, _WORDS, 2)
    examples = [("x = 7\nprint('tree' if x > 3 else 'milk')", "tree")]
    code = f"x = {value}\nprint('{yes}' if x > {limit} else '{no}')"
    return _output(examples, code, yes if value > limit else no, 2, "branch")


def _complete(rng: random.Random) -> Draft:
    signature, what, reference = rng.choice(_FUNCTIONS)
    example = "# return x plus one\ndef increment(x):\n    return x + 1"
    return {
        "prompt": "Complete the last line of Python code.\n\n"
        f"{example}\n\n# return {what}\ndef {signature}:\n    return",
        "reference": reference,
        "scorer": "regex",
        "tags": ["completion"],
        "level": 2,
        "max_tokens": 24,
    }


def _language(rng: random.Random) -> Draft:
    language, snippet = rng.choice(_SNIPPETS)
    return {
        "prompt": f"Which language is this code, {', '.join(_LANGUAGES[:-1])} or "
        f"{_LANGUAGES[-1]}?\n{snippet}\nAnswer:",
        "reference": language,
        "scorer": "choice",
        "choices": list(_LANGUAGES),
        "tags": ["language"],
        "level": 1,
    }


def _sql(rng: random.Random) -> Draft:
    table, column = rng.choice(("users", "orders", "books")), rng.choice(("age", "price", "year"))
    value = rng.randint(2, 99)
    words, sign = rng.choice((("more than", ">"), ("less than", "<"), ("equal to", "=")))
    example = "-- pages where size is more than 7\nSELECT * FROM pages WHERE size > 7;"
    return {
        "prompt": f"Complete the last SQL query.\n\n{example}\n\n"
        f"-- {table} where {column} is {words} {value}\nSELECT * FROM {table} WHERE",
        "reference": rf"{column}\s*{sign}\s*{value}\b",
        "scorer": "regex",
        "tags": ["completion", "sql"],
        "level": 2,
        "max_tokens": 24,
    }


MAKERS: tuple[Maker, ...] = (
    _print_variable,
    _complete,
    _print_item,
    _print_sum,
    _print_word,
    _sql,
    _language,
    _print_length,
    _print_branch,
    _print_loop,
)
