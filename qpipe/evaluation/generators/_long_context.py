"""Facts planted in prose, asked for at its end; length and depth are tags.

A length is either in words of the text, which needs no tokenizer, or in tokens of one. The prose is
English only: the tokens of a Chinese text depend on the tokenizer too much for a length in words to
say anything of them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from qpipe.evaluation.generators._draw import Draft, Template, pick

__all__ = ["DEPTHS", "LENGTHS", "Length", "in_tokens", "in_words", "templates"]

_TOKENS_A_WORD = 1.3
_FULL = 0.97  # of the tokens asked for, at least
_PEOPLE = (
    "The baker", "The captain", "A farmer", "The gardener", "My aunt", "The nurse", "An old man",
    "The painter", "A student", "The teacher", "Our neighbour", "The tailor", "A young woman",
    "The postman", "The shepherd", "A traveller",
)  # fmt: skip
_ACTS = (
    "walked slowly along", "looked for a while at", "often spoke about", "had never seen",
    "made a drawing of", "told the children about", "sat down not far from", "remembered",
    "turned away from", "wrote a long letter about", "liked the smell of", "stopped in front of",
    "heard strange stories of", "came back from", "dreamt of", "once lived close to",
)  # fmt: skip
_SIGHTS = (
    "the quiet harbour", "the hill behind the church", "the narrow bridge", "a field of wheat",
    "the market square", "the edge of the forest", "the empty beach", "a row of poplars",
    "the mill by the stream", "the road to the coast", "the frozen lake", "an orchard in bloom",
    "the river bank", "the ruins of the castle", "the railway station", "a small vineyard",
)  # fmt: skip
_TIMES = (
    "early in the morning", "late at night", "after the rain had stopped", "before supper",
    "in the last days of summer", "while the wind was blowing", "as the bells were ringing",
    "on the way home", "without saying a word", "long before the war", "during the holidays",
    "when nobody was watching",
)  # fmt: skip
_REMARKS = (
    "The weather stayed mild for weeks.", "Nothing else happened that afternoon.",
    "Smoke rose from the chimneys.", "It was hard to say why.", "The dogs barked and fell silent.",
    "Bread was cheap and the streets were clean.", "Everyone agreed that it had been a good year.",
    "A cart rolled past and the dust settled again.", "Somewhere a door was closed.",
    "Swallows circled above the roofs.", "The lamps were lit one after the other.",
    "There was little to do but wait.",
)  # fmt: skip
_ADJECTIVES = (
    "amber", "blue", "bronze", "copper", "crimson", "golden", "green", "grey", "ivory", "orange",
    "pink", "purple", "scarlet", "silver", "violet", "white",
)  # fmt: skip
_OBJECTS = (
    "barrel", "cabinet", "chest", "crate", "cupboard", "locker", "safe", "strongbox", "suitcase",
    "trunk", "vault", "wardrobe",
)  # fmt: skip
_PASSWORDS = (
    "anchor", "badger", "cactus", "domino", "eclipse", "falcon", "ginger", "helmet", "iguana",
    "jasmine", "kitten", "lantern", "magnet", "nutmeg", "octopus", "pepper", "quartz", "rocket",
    "saffron", "turnip", "umbrella", "velvet", "walnut", "zipper",
)  # fmt: skip


@dataclass(frozen=True)
class Length:
    """How long a question is."""

    tag: str
    words: int
    """Of the text; where ``tokens`` decides, a first guess."""
    tokens: int | None = None
    """The most that prompt and answer may have together."""
    count: Callable[[str], int] = len
    """Tokens of a prompt."""


def in_words(words: int) -> Length:
    """A text of so many words; the tag takes a word for 1.3 tokens."""
    thousands = words * _TOKENS_A_WORD / 1000
    return Length(f"{thousands:.0f}k" if thousands >= 1.95 else f"{thousands:.1f}k", words)


def in_tokens(tokens: int, count: Callable[[str], int]) -> Length:
    """A prompt that fits ``tokens`` with its answer, and is at most 3% shorter.

    Args:
        tokens: as contexts are counted: 1k is 1024.
        count: tokens of a prompt as the model is sent it.
    """
    tag = f"{tokens / 1024:g}k" if tokens % 512 == 0 else str(tokens)
    return Length(tag, round(tokens / _TOKENS_A_WORD), tokens, count)


LENGTHS = (in_words(400), in_words(700), in_words(1000))
"""Those of the demo: with SmolLM2's tokenizer all fit a context of 2048 tokens."""
DEPTHS = (10, 50, 90)
"""Where the asked fact is, in percent of the prose."""

_At = Callable[..., Draft]


@dataclass(frozen=True)
class _Form:
    """One kind of fact: what is said of a key, and how it is asked for."""

    fact: str
    question: str
    stem: str
    """How the answer starts, for the smallest models."""
    values: Callable[[random.Random, int], list[str]]
    shown: tuple[str, str]
    """Values of the worked example, which are none of ``values``."""


def _four_digits(rng: random.Random, count: int) -> list[str]:
    return [str(number) for number in rng.sample(range(2101, 9999), count)]


def _passwords(rng: random.Random, count: int) -> list[str]:
    return pick(rng, _PASSWORDS, count)


def _years(rng: random.Random, count: int) -> list[str]:
    return [str(year) for year in rng.sample(range(1401, 2000), count)]


_FORMS = {
    "code": _Form(
        "The code of the {key} is {value}.",
        "What is the code of the {key}?",
        "The code of the {key} is",
        _four_digits,
        ("1795", "1462"),
    ),
    "password": _Form(
        "The password of the {key} is {value}.",
        "What is the password of the {key}?",
        "The password of the {key} is",
        _passwords,
        ("compass", "biscuit"),
    ),
    "year": _Form(
        "The {key} was built in {value}.",
        "When was the {key} built?",
        "The {key} was built in",
        _years,
        ("1318", "1287"),
    ),
}


def _keys(rng: random.Random, count: int) -> list[str]:
    return pick(rng, [f"{look} {thing}" for look in _ADJECTIVES for thing in _OBJECTS], count)


def _sentence(rng: random.Random) -> str:
    if rng.random() < 0.15:
        return rng.choice(_REMARKS)
    person, act, sight = rng.choice(_PEOPLE), rng.choice(_ACTS), rng.choice(_SIGHTS)
    return f"{person} {act} {sight} {rng.choice(_TIMES)}."


def _text(rng: random.Random, words: int, facts: Sequence[tuple[float, str]]) -> str:
    """Prose of about ``words`` words with each fact at its depth in percent."""
    waiting = deque(sorted(facts, key=lambda fact: fact[0]))
    owed = sum(len(fact.split()) for _, fact in facts)
    parts: list[str] = []
    written = 0
    while waiting or written < words:
        if waiting and (100 * written >= waiting[0][0] * words or written + owed >= words):
            parts.append(waiting.popleft()[1])
            owed -= len(parts[-1].split())
        else:
            parts.append(_sentence(rng))
        written += len(parts[-1].split())
    return " ".join(parts)


def _row(text: str, example: tuple[str, str, str], question: str, answer: str, depth: int) -> Draft:
    shown, asked, solved = example
    return {
        "prompt": f"Read the text and answer.\n\nText: {shown}\nQuestion: {asked}\nAnswer:{solved}"
        f"\n\nText: {text}\nQuestion: {question}",
        "reference": answer,
        "scorer": "contains",
        "tags": [f"depth:{depth}"],
        "max_tokens": 16,
        "stop": ["\n"],
    }


def _example(form: _Form, stem: str = "") -> tuple[str, str, str]:
    """A short text with two facts, its question, and the answer behind ``stem``."""
    keys = ("black kettle", "yellow drawer")
    facts = [form.fact.format(key=k, value=v) for k, v in zip(keys, form.shown, strict=True)]
    text = f"It rained all day. {facts[0]} The boy slept. {facts[1]} They all went home."
    # The first fact is asked: asking the last would invite copying what is nearest.
    return text, form.question.format(key=keys[0]), f"{stem.format(key=keys[0])} {form.shown[0]}"


def _records(
    rng: random.Random, form: _Form, count: int, depth: int, keys: Sequence[str] | None = None
) -> tuple[list[tuple[float, str]], list[str], list[str]]:
    """Facts of ``count`` keys, the first at ``depth``; and the keys and values."""
    keys = keys or _keys(rng, count)
    values = form.values(rng, count)
    depths = [float(depth), *(rng.uniform(2, 98) for _ in range(count - 1))]
    facts = [
        (at, form.fact.format(key=key, value=value))
        for at, key, value in zip(depths, keys, values, strict=True)
    ]
    return facts, list(keys), values


def _needle(rng: random.Random, form: _Form, words: int, depth: int) -> Draft:
    """The only fact of its kind; the answer's first words are given."""
    facts, (key, *_), (value, *_) = _records(rng, form, 1, depth)
    question = f"{form.question.format(key=key)}\nAnswer: {form.stem.format(key=key)}"
    example = _example(form, f" {form.stem}")
    return _row(_text(rng, words, facts), example, question, value, depth)


def _few(rng: random.Random, form: _Form, words: int, depth: int) -> Draft:
    """One fact among four of its kind."""
    facts, (key, *_), (value, *_) = _records(rng, form, 4, depth)
    question = f"{form.question.format(key=key)}\nAnswer:"
    return _row(_text(rng, words, facts), _example(form), question, value, depth)


def _near(rng: random.Random, form: _Form, words: int, depth: int) -> Draft:
    """One fact among sixteen whose keys share a word with the asked one."""
    look, thing = rng.choice(_ADJECTIVES), rng.choice(_OBJECTS)
    others = [f"{look} {other}" for other in _OBJECTS if other != thing]
    others += [f"{other} {thing}" for other in _ADJECTIVES if other != look]
    keys = [f"{look} {thing}", *pick(rng, others, 15)]
    facts, _, (value, *_) = _records(rng, form, 16, depth, keys)
    question = f"{form.question.format(key=keys[0])}\nAnswer:"
    return _row(_text(rng, words, facts), _example(form), question, value, depth)


def _reverse(rng: random.Random, words: int, depth: int) -> Draft:
    """The key of a code, among twelve."""
    facts, (key, *_), (value, *_) = _records(rng, _FORMS["code"], 12, depth)
    shown, _, solved = _example(_FORMS["code"])
    example = (shown, f"What has the code{solved}?", " The black kettle")
    question = f"What has the code {value}?\nAnswer:"
    return _row(_text(rng, words, facts), example, question, key, depth)


def _hops(rng: random.Random, words: int, depth: int) -> Draft:
    """Three facts that must be joined; the last of them is at ``depth``."""
    form = _FORMS["code"]
    facts, keys, values = _records(rng, form, 8, depth)
    owners = pick(rng, ("Anna", "Boris", "Clara", "Dmitri", "Elsa", "Felix", "Greta", "Hugo"), 8)
    papers = pick(
        rng,
        ("contract", "diary", "letter", "map", "medal", "photograph", "recipe", "ticket"),
        8,
    )
    for owner, paper, key in zip(owners, papers, keys, strict=True):
        facts.append((rng.uniform(2, 98), f"{owner} hid the {paper}."))
        facts.append((rng.uniform(2, 98), f"The {paper} lies in the {key}."))
    example = (
        "The pen lies in the black kettle. It rained all day. Tom hid the pen. The code of the "
        "black kettle is 1795.",
        "What is the code of the place where the thing lies that Tom hid?",
        " 1795",
    )
    question = f"What is the code of the place where the thing lies that {owners[0]} hid?\nAnswer:"
    return _row(_text(rng, words, facts), example, question, values[0], depth)


def _latest(rng: random.Random, words: int, depth: int) -> Draft:
    """A code that was changed twice, among four such; its last change is at ``depth``."""
    keys, values = _keys(rng, 4), _four_digits(rng, 12)
    places = [sorted(rng.uniform(12, 98) for _ in range(3)) for _ in keys]
    # In the shortest text more would not fit before a depth of ten percent.
    places[0] = [*sorted(rng.uniform(1, depth - 1) for _ in range(2)), float(depth)]
    facts = [
        (at, f"The code of the {key} {verb} {value}.")
        for index, key in enumerate(keys)
        for at, verb, value in zip(
            places[index],
            ("is", "was changed to", "was changed to"),
            values[index::4],
            strict=True,
        )
    ]
    example = (
        "The code of the black kettle is 1795. It rained all day. The code of the black kettle "
        "was changed to 1462. The boy slept.",
        "What is the code of the black kettle now?",
        " 1462",
    )
    question = f"What is the code of the {keys[0]} now?\nAnswer:"
    return _row(_text(rng, words, facts), example, question, values[8], depth)


def _total(rng: random.Random, words: int, depth: int) -> Draft:
    """How many loads went to one place: counts to be added, the first of them at ``depth``."""
    asked, *others = pick(rng, _OBJECTS, 4)
    counts = [rng.randint(3, 40) for _ in range(3)]
    depths = [float(depth), *(rng.uniform(2, 98) for _ in counts[1:])]
    who = ("Anna", "Boris", "Clara")
    form = "{} put {} coins into the {}."
    facts = [
        (at, form.format(name, count, asked))
        for at, name, count in zip(depths, who, counts, strict=True)
    ]
    facts += [
        (rng.uniform(2, 98), form.format(name, rng.randint(3, 40), other))
        for other in others
        for name in who
    ]
    example = (
        "Tom put 5 coins into the kettle. It rained all day. Mia put 9 coins into the drawer. "
        "Sam put 12 coins into the kettle.",
        "How many coins were put into the kettle in all?",
        " 17",
    )
    question = f"How many coins were put into the {asked} in all?\nAnswer:"
    draft = _row(_text(rng, words, facts), example, question, "", depth)
    return {**draft, "reference": sum(counts), "scorer": "numeric"}


_KINDS: tuple[tuple[str, int, _At], ...] = (
    *((f"needle-{name}", 1, partial(_needle, form=form)) for name, form in _FORMS.items()),
    *((f"few-{name}", 2, partial(_few, form=form)) for name, form in _FORMS.items()),
    *((f"near-{name}", 3, partial(_near, form=form)) for name, form in _FORMS.items()),
    ("reverse", 3, _reverse),
    ("hops", 4, _hops),
    ("latest", 4, _latest),
    ("total", 4, _total),
)


def templates(
    lengths: Sequence[Length] = LENGTHS, depths: Sequence[int] = DEPTHS
) -> tuple[Template, ...]:
    """Every kind of question at every length and every depth.

    They are ordered such that the first rows of a draw already have all lengths, depths and kinds
    in even shares.
    """
    made = []
    for level in (1, 2, 3, 4):
        kinds = [kind for kind in _KINDS if kind[1] == level]
        cells = [(length, turn) for turn in range(len(depths)) for length in range(len(lengths))]
        start = level * len(lengths) % len(cells)
        for shift in range(len(kinds)):
            for length, turn in cells[start:] + cells[:start]:
                name, _, make = kinds[(length + 2 * turn + shift) % len(kinds)]
                depth = depths[(length + turn) % len(depths)]
                at = partial(_placed, make=make, length=lengths[length], depth=depth)
                made.append(Template(name, level, at))
    return tuple(made)


def _placed(rng: random.Random, make: _At, length: Length, depth: int) -> Draft:
    draft = _fitted(rng, make, length, depth)
    return {**draft, "tags": [f"tokens:{length.tag}", *draft["tags"]]}


def _fitted(rng: random.Random, make: _At, length: Length, depth: int) -> Draft:
    """The same question with as much prose as its length holds."""
    if length.tokens is None:
        return make(rng, words=length.words, depth=depth)
    state, words = rng.getstate(), length.words
    low, high = 0, length.tokens  # words too few, and too many
    while low < words < high:
        rng.setstate(state)
        draft = make(rng, words=words, depth=depth)
        tokens = length.count(draft["prompt"]) + draft["max_tokens"]
        if _FULL * length.tokens <= tokens <= length.tokens:
            return draft
        low, high = (words, high) if tokens < length.tokens else (low, words)
        aim = words + round(((1 + _FULL) / 2 * length.tokens - tokens) * words / tokens)
        words = min(max(aim, low + 1), high - 1)
    raise ValueError(f"no prose makes a question of {length.tag} tokens")
