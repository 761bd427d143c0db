"""Python to run in the head or to complete; SQL to complete; languages to tell apart."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from qpipe.evaluation.generators._draw import Draft, Template, pick, shots

__all__ = ["TEMPLATES"]

_WORDS = (
    "apple",
    "bird",
    "bread",
    "chair",
    "cloud",
    "door",
    "fish",
    "grape",
    "green",
    "horse",
    "house",
    "lemon",
    "moon",
    "paper",
    "river",
    "stone",
    "sun",
    "table",
    "water",
    "window",
)
_VARIABLES = ("a", "count", "n", "size", "total", "x", "y")
# What is asked for, and all bodies that are counted right.
_FUNCTIONS = (
    (
        "add(a, b)",
        "the sum of a and b",
        ("a + b", "b + a", "sum([a, b])", "sum((a, b))", "sum([b, a])", "sum((b, a))"),
    ),
    ("subtract(a, b)", "a minus b", ("a - b", "-b + a", "a + -b", "a + (-b)", "-(b - a)")),
    ("multiply(a, b)", "the product of a and b", ("a * b", "b * a")),
    ("square(x)", "x squared", ("x * x", "x ** 2", "pow(x, 2)")),
    ("double(x)", "two times x", ("2 * x", "x * 2", "x + x", "x << 1")),
    (
        "is_even(n)",
        "whether n is even",
        tuple(
            body.format(rest)
            for rest in ("n % 2", "(n % 2)", "n & 1", "(n & 1)")
            for body in (
                "{} == 0", "0 == {}", "{} != 1", "{} < 1", "not {}", "not ({})", "not bool({})",
                "True if {} == 0 else False", "False if {} else True",
            )
        ),
    ),
    (
        "first(items)",
        "the first item",
        ("items[0]", "items[0] if items else None", "next(iter(items))", "items[-len(items)]"),
    ),
    (
        "last(items)",
        "the last item",
        (
            "items[-1]", "items[-1] if items else None", "items[len(items) - 1]", "items[::-1][0]",
        ),
    ),
    ("length(items)", "how many items there are", ("len(items)", "items.__len__()")),
    (
        "upper(text)",
        "the text in upper case",
        ("text.upper()", "str(text).upper()", "str.upper(text)"),
    ),
    (
        "larger(a, b)",
        "the larger of a and b",
        (
            *("max(a, b)", "max(b, a)", "max([a, b])", "max((a, b))", "max([b, a])", "max((b, a))"),
            *(
                body.format(left=left, right=right, orequal=orequal)
                for left, right in (("a", "b"), ("b", "a"))
                for orequal in ("", "=")
                for body in (
                    "{left} if {left} >{orequal} {right} else {right}",
                    "{left} if ({left} >{orequal} {right}) else {right}",
                    "{left} if {right} <{orequal} {left} else {right}",
                    "{left} if ({right} <{orequal} {left}) else {right}",
                )
            ),
        ),
    ),
    (
        "negate(x)",
        "minus x",
        ("-x", "-(x)", "x * -1", "x * (-1)", "-1 * x", "(-1) * x", "0 - x", "x - 2 * x"),
    ),
)  # fmt: skip
_TOKEN = re.compile(r"\w+|\*\*|<<|[<>=!]=|\S")
_SNIPPETS = (
    ("Python", "def main():\n    print('{word}')"),
    ("Python", "import os\nprint(os.getcwd(), {number})"),
    ("Python", "for i in range({number}):\n    {word} += i"),
    ("JavaScript", "const {word} = {number};\nconsole.log({word});"),
    ("JavaScript", "let names = ['{word}'];\nnames.forEach(n => alert(n));"),
    ("SQL", "SELECT name FROM {word} WHERE age > {number};"),
    ("SQL", "INSERT INTO orders VALUES ({number}, '{word}');"),
    ("HTML", "<div><p>The {word} number {number}</p></div>"),
    ("HTML", "<ul><li>{word}</li><li>two</li></ul>"),
    ("C", '#include <stdio.h>\nint main() {{ printf("{word}"); }}'),
    ("C", "int *p = malloc({number} * sizeof(int));\nfree(p);"),
)
_LANGUAGES = ("Python", "JavaScript", "SQL", "HTML", "C")
_HEAD = "What does this Python code print?"


def _output(
    examples: list[tuple[str, str]], code: str, reference: object, *tags: str, head: str = _HEAD
) -> Draft:
    return {
        "prompt": shots(examples, code, head),
        "reference": str(reference),
        "scorer": "exact",
        "tags": ["output", *tags],
        "max_tokens": 16,
        "stop": ["\n"],
    }


def _print_variable(rng: random.Random) -> Draft:
    name, value = rng.choice(_VARIABLES), rng.randint(2, 99)
    examples = [("k = 4\nprint(k)", "4"), ("w = 31\nprint(w)", "31")]
    return _output(examples, f"{name} = {value}\nprint({name})", value)


def _print_word(rng: random.Random) -> Draft:
    word = rng.choice(_WORDS)
    examples = [("print('tree')", "tree"), ("print('hello')", "hello")]
    return _output(examples, f"print('{word}')", word)


def _print_sum(rng: random.Random) -> Draft:
    (first, second), a, b = pick(rng, _VARIABLES, 2), rng.randint(1, 9), rng.randint(1, 9)
    examples = [("k = 2\nw = 3\nprint(k + w)", "5"), ("i = 4\nj = 4\nprint(i + j)", "8")]
    code = f"{first} = {a}\n{second} = {b}\nprint({first} + {second})"
    return _output(examples, code, a + b)


def _chinese_product(rng: random.Random) -> Draft:
    (first, second), a, b = pick(rng, _VARIABLES, 2), rng.randint(2, 9), rng.randint(2, 9)
    examples = [("k = 2\nw = 3\nprint(k * w)", "6"), ("i = 4\nj = 5\nprint(i * j)", "20")]
    code = f"{first} = {a}\n{second} = {b}\nprint({first} * {second})"
    return _output(examples, code, a * b, "zh", head="这段Python代码输出什么？")


def _print_item(rng: random.Random) -> Draft:
    words, index = pick(rng, _WORDS, 3), rng.randrange(3)
    examples = [("w = ['tree', 'cat', 'milk']\nprint(w[1])", "cat")]
    return _output(examples, f"w = {words}\nprint(w[{index}])", words[index], "list")


def _print_length(rng: random.Random) -> Draft:
    word = rng.choice(_WORDS)
    examples = [("print(len('cat'))", "3"), ("print(len('orange'))", "6")]
    return _output(examples, f"print(len('{word}'))", len(word), "string")


def _print_branch(rng: random.Random) -> Draft:
    value, limit, (yes, no) = rng.randint(1, 20), rng.randint(1, 20), pick(rng, _WORDS, 2)
    examples = [("x = 7\nprint('tree' if x > 3 else 'milk')", "tree")]
    code = f"x = {value}\nprint('{yes}' if x > {limit} else '{no}')"
    return _output(examples, code, yes if value > limit else no, "branch")


def _print_loop(rng: random.Random) -> Draft:
    start, stop, step = rng.randint(0, 3), rng.randint(4, 7), rng.randint(1, 5)
    examples = [("t = 0\nfor i in range(1, 4):\n    t += i\nprint(t)", "6")]
    code = f"t = 0\nfor i in range({start}, {stop}):\n    t += i * {step}\nprint(t)"
    return _output(examples, code, sum(i * step for i in range(start, stop)), "loop")


def _print_slice(rng: random.Random) -> Draft:
    word = rng.choice(_WORDS) + rng.choice(_WORDS)
    start = rng.randint(0, 3)
    stop = rng.randint(start + 2, len(word) - 1)
    examples = [("print('orangetree'[2:5])", "ang"), ("print('milkcat'[0:3])", "mil")]
    return _output(examples, f"print('{word}'[{start}:{stop}])", word[start:stop], "string")


def _print_dictionary(rng: random.Random) -> Draft:
    names, values = pick(rng, _WORDS, 3), rng.sample(range(2, 60), 3)
    stock = dict(zip(names, values, strict=True))
    changed, more = rng.choice(names), rng.randint(2, 20)
    examples = [("d = {'tree': 4, 'cat': 9}\nd['cat'] += 3\nprint(d['tree'] + d['cat'])", "16")]
    (first, second) = pick(rng, names, 2)
    code = f"d = {stock}\nd['{changed}'] += {more}\nprint(d['{first}'] + d['{second}'])"
    stock[changed] += more
    return _output(examples, code, stock[first] + stock[second], "dictionary")


def _print_filter(rng: random.Random) -> Draft:
    values, limit = rng.sample(range(1, 40), 6), rng.randint(8, 25)
    examples = [("w = [3, 12, 8, 20]\nprint(sum(1 for x in w if x > 7))", "3")]
    code = f"w = {values}\nprint(sum(1 for x in w if x > {limit}))"
    return _output(examples, code, sum(1 for value in values if value > limit), "list")


def _print_nested(rng: random.Random) -> Draft:
    rows, columns, divisor = rng.randint(3, 6), rng.randint(3, 6), rng.randint(2, 4)
    examples = [
        (
            "t = 0\nfor i in range(3):\n    for j in range(2):\n        if (i + j) % 2 == 0:\n"
            "            t += i * j + 1\nprint(t)",
            "4",
        )
    ]
    code = (
        f"t = 0\nfor i in range({rows}):\n    for j in range({columns}):\n"
        f"        if (i + j) % {divisor} == 0:\n            t += i * j + 1\nprint(t)"
    )
    value = sum(i * j + 1 for i in range(rows) for j in range(columns) if (i + j) % divisor == 0)
    return _output(examples, code, value, "loop")


def _print_recursion(rng: random.Random) -> Draft:
    start, step, size = rng.randint(2, 5), rng.randint(2, 4), rng.randint(6, 9)
    examples = [
        (
            "def f(n):\n    if n < 3:\n        return n\n    return f(n - 1) + 2 * f(n - 3)\n"
            "print(f(5))",
            "8",
        )
    ]
    code = (
        f"def f(n):\n    if n < {start}:\n        return n\n"
        f"    return f(n - 1) + {step} * f(n - 2)\nprint(f({size}))"
    )
    values: list[int] = []
    for n in range(size + 1):
        values.append(n if n < start else values[n - 1] + step * values[n - 2])
    return _output(examples, code, values[size], "recursion")


def _print_alias(rng: random.Random) -> Draft:
    """Two names of one list, and a copy that goes its own way."""
    values, (more, other) = rng.sample(range(1, 30), 4), rng.sample(range(30, 60), 2)
    index, asked = rng.randrange(4), rng.choice(("a", "b", "c"))
    shared = [*values, more]
    shared[index] = other
    copied = [*values[:-1]]
    examples = [
        ("a = [1, 2]\nb = a\nc = a[:]\nb.append(3)\nc.pop()\na[0] = 9\nprint(sum(b))", "14"),
        ("a = [4, 5, 6]\nb = a\nc = a[:]\nb.append(8)\nc.pop()\na[1] = 7\nprint(sum(c))", "9"),
    ]
    code = (
        f"a = {values}\nb = a\nc = a[:]\nb.append({more})\nc.pop()\n"
        f"a[{index}] = {other}\nprint(sum({asked}))"
    )
    return _output(examples, code, sum(copied if asked == "c" else shared), "list")


def _print_counter(rng: random.Random) -> Draft:
    text = "".join(rng.choice("abcd") for _ in range(14))
    a, b = pick(rng, "abcd", 2)
    counts = Counter(text)
    examples = [
        (
            "n = {}\nfor c in 'xyxxzy':\n    n[c] = n.get(c, 0) + 1\n"
            "print(n.get('x', 0) * 10 + n.get('y', 0))",
            "32",
        )
    ]
    code = (
        f"n = {{}}\nfor c in '{text}':\n    n[c] = n.get(c, 0) + 1\n"
        f"print(n.get('{a}', 0) * 10 + n.get('{b}', 0))"
    )
    return _output(examples, code, counts[a] * 10 + counts[b], "dictionary")


def _print_while(rng: random.Random) -> Draft:
    value, limit = rng.randint(7, 60), rng.randint(5, 8)
    examples = [
        (
            "x = 10\nfor _ in range(3):\n    x = x // 2 if x % 2 == 0 else 3 * x + 1\nprint(x)",
            "8",
        )
    ]
    code = (
        f"x = {value}\nfor _ in range({limit}):\n    x = x // 2 if x % 2 == 0 else 3 * x + 1\n"
        "print(x)"
    )
    for _ in range(limit):
        value = value // 2 if value % 2 == 0 else 3 * value + 1
    return _output(examples, code, value, "loop")


def _print_sorted(rng: random.Random) -> Draft:
    words, index = pick(rng, _WORDS, 6), rng.randrange(1, 5)
    examples = [
        ("w = ['milk', 'cat', 'tree']\nw.sort(key=lambda s: (len(s), s))\nprint(w[1])", "milk")
    ]
    code = f"w = {words}\nw.sort(key=lambda s: (len(s), s))\nprint(w[{index}])"
    return _output(examples, code, sorted(words, key=lambda s: (len(s), s))[index], "list")


def _line(bodies: Iterable[str], comment: str, flags: str = "") -> str:
    """Pattern of a line that is one of ``bodies``, however spaced, and may end in a comment."""
    fits = "|".join(map(_spaced, bodies))
    return rf"{flags}\A\s*(?:{fits})\s*;?\s*(?:{comment}.*)?\Z"


def _spaced(body: str) -> str:
    """Pattern of ``body`` with any space between its tokens, and some between two words."""
    tokens = _TOKEN.findall(body)
    words = [token[0].isalnum() or token[0] == "_" for token in tokens]
    gaps = [r"\s+" if a and b else r"\s*" for a, b in pairwise(words)]
    return "".join(re.escape(token) + gap for token, gap in zip(tokens, [*gaps, ""], strict=True))


def _complete(rng: random.Random) -> Draft:
    signature, what, bodies = rng.choice(_FUNCTIONS)
    example = "# return x plus one\ndef increment(x):\n    return x + 1"
    return {
        "prompt": "Complete the last line of Python code.\n\n"
        f"{example}\n\n# return {what}\ndef {signature}:\n    return",
        "reference": _line((form for body in bodies for form in (body, f"({body})")), "#"),
        "scorer": "regex",
        "tags": ["completion"],
        "max_tokens": 24,
        "stop": ["\n"],
    }


def _language(rng: random.Random) -> Draft:
    language, snippet = rng.choice(_SNIPPETS)
    code = snippet.format(word=rng.choice(_WORDS), number=rng.randint(2, 99))
    return {
        "prompt": f"Which language is this code, {', '.join(_LANGUAGES[:-1])} or "
        f"{_LANGUAGES[-1]}?\n{code}\nAnswer:",
        "reference": language,
        "scorer": "choice",
        "choices": list(_LANGUAGES),
        "tags": ["language"],
    }


def _sql(rng: random.Random) -> Draft:
    table, column = rng.choice(("users", "orders", "books")), rng.choice(("age", "price", "year"))
    value = rng.randint(2, 99)
    words, sign = rng.choice((("more than", ">"), ("less than", "<"), ("equal to", "=")))
    turned = {">": "<", "<": ">", "=": "="}[sign]
    names = (column, f"{table}.{column}")
    bodies = [f"{name} {sign} {value}" for name in names]
    bodies += [f"{value} {turned} {name}" for name in names]
    example = "-- pages where size is more than 7\nSELECT * FROM pages WHERE size > 7;"
    return {
        "prompt": f"Complete the last SQL query.\n\n{example}\n\n"
        f"-- {table} where {column} is {words} {value}\nSELECT * FROM {table} WHERE",
        "reference": _line((form for body in bodies for form in (body, f"({body})")), "--", "(?i)"),
        "scorer": "regex",
        "tags": ["completion", "sql"],
        "max_tokens": 24,
        "stop": ["\n"],
    }


TEMPLATES: tuple[Template, ...] = (
    Template("print-variable", 1, _print_variable),
    Template("print-word", 1, _print_word),
    Template("language", 1, _language),
    Template("complete", 2, _complete),
    Template("print-item", 2, _print_item),
    Template("print-sum", 2, _print_sum),
    Template("sql", 2, _sql),
    Template("print-product-zh", 2, _chinese_product),
    Template("print-length", 2, _print_length),
    Template("print-branch", 2, _print_branch),
    Template("print-loop", 3, _print_loop),
    Template("print-slice", 3, _print_slice),
    Template("print-dictionary", 3, _print_dictionary),
    Template("print-filter", 3, _print_filter),
    Template("print-nested", 4, _print_nested),
    Template("print-recursion", 4, _print_recursion),
    Template("print-alias", 4, _print_alias),
    Template("print-counter", 4, _print_counter),
    Template("print-while", 4, _print_while),
    Template("print-sorted", 4, _print_sorted),
)
