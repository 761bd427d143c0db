"""Number words, days, months, dates and countries of languages that models see little of.

All words come from Babel's locale data (CLDR) and num2words, none from this project.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from functools import cache

from babel import Locale
from babel.dates import format_date
from num2words import num2words

from qpipe.evaluation.generators._draw import Draft, Template, pick

__all__ = ["TEMPLATES"]

_LATIN = ("ha", "so", "sw", "yo", "zu")
_OTHER = ("am", "bn", "hy", "ka", "kk", "km", "kn", "lo", "ne", "ta", "te", "th")
# Languages whose month names sound like the English ones.
_COGNATE = ("ha", "so", "sw", "zu")
# num2words' code, the language, and the largest number whose words are the usual ones.
_COUNTING = {
    "am": ("Amharic", 999),
    "az": ("Azerbaijani", 999),
    "bn": ("Bangla", 999),
    "ce": ("Chechen", 99),
    "cy": ("Welsh", 99),
    "kn": ("Kannada", 20),
    "kz": ("Kazakh", 999),
    "te": ("Telugu", 99),
    "tet": ("Tetum", 999),
    "tg": ("Tajik", 999),
    "th": ("Thai", 999),
}
_WIDE = tuple(code for code, (_, largest) in _COUNTING.items() if largest >= 99)
_COUNTRIES = (
    "AU", "BR", "CA", "CH", "CL", "CN", "CU", "DE", "DK", "EG", "ES", "FI", "FR", "GR", "HU", "ID",
    "IE", "IN", "IQ", "IR", "IS", "IT", "JP", "KE", "KR", "LY", "MA", "MX", "NG", "NL", "NO", "NP",
    "PE", "PL", "PT", "RU", "SA", "SE", "TH", "TR", "UA", "VN",
)  # fmt: skip
_ENGLISH_NUMBERS = tuple(num2words(number, lang="en") for number in range(21))

Words = tuple[tuple[str, str], ...]
"""Pairs of a word and its English."""


@cache
def _locale(code: str) -> Locale:
    return Locale.parse(code)


def _name(code: str) -> str:
    return str(_locale(code).english_name)


@cache
def _days(code: str) -> Words:
    """In the order of the week."""
    return tuple(
        (_locale(code).days["stand-alone"]["wide"][day], english)
        for day, english in _locale("en").days["stand-alone"]["wide"].items()
    )


@cache
def _months(code: str) -> Words:
    english = _locale("en").months["stand-alone"]["wide"]
    names = _locale(code).months["stand-alone"]["wide"]
    return tuple((names[month], english[month]) for month in range(1, 13))


@cache
def _countries(code: str) -> Words:
    """Without those that are spelt as in English."""
    english = _locale("en").territories
    names = _locale(code).territories
    pairs = ((names.get(country, ""), english[country]) for country in _COUNTRIES)
    return tuple((word, meaning) for word, meaning in pairs if word and _foreign(word, meaning))


def _foreign(word: str, meaning: str) -> bool:
    return word.casefold() != meaning.casefold()


@cache
def _number(code: str, number: int) -> str:
    return str(num2words(number, lang=code)).strip()


def _numbers(code: str) -> Words:
    """One to ten, in a language of ``_COUNTING``."""
    return tuple((_number(code, n), _ENGLISH_NUMBERS[n]) for n in range(1, 11))


def _row(
    rng: random.Random, prompt: str, answer: str, others: Sequence[str], language: str, kind: str
) -> Draft:
    choices = [answer, *others]
    rng.shuffle(choices)
    return {
        "prompt": prompt,
        "reference": answer,
        "scorer": "choice",
        "choices": choices,
        "tags": [language, kind],
    }


def _but(rng: random.Random, items: Sequence[str], answer: str, count: int = 3) -> list[str]:
    return pick(rng, [item for item in dict.fromkeys(items) if item != answer], count)


def _any(
    rng: random.Random, codes: Sequence[str], words: Callable[[str], Words]
) -> tuple[str, Words]:
    code = rng.choice(codes)
    return _name(code), words(code)


def _glossary(rng: random.Random, language: str, words: Words, kind: str) -> Draft:
    """The meaning is in the prompt: only to be found again."""
    shown = rng.sample(words, 3)
    word, answer = rng.choice(shown)
    lines = "\n".join(f"{foreign} = {english}" for foreign, english in shown)
    prompt = f"{language} words:\n{lines}\nWhat does the {language} word '{word}' mean?\nAnswer:"
    others = [english for _, english in shown if english != answer]
    return _row(rng, prompt, answer, others, language, kind)


def _echo(rng: random.Random, language: str, words: Words, kind: str) -> Draft:
    """A list of pairs that goes on with one of them again."""
    shown = rng.sample(words, 3)
    word, answer = rng.choice(shown)
    lines = "\n".join(f"{foreign} = {english}" for foreign, english in shown)
    prompt = f"{language} to English\n{lines}\n{word} ="
    others = [english for _, english in shown if english != answer]
    return _row(rng, prompt, answer, others, language, kind)


def _echo_number(rng: random.Random) -> Draft:
    code = rng.choice(tuple(_COUNTING))
    return _echo(rng, _COUNTING[code][0], _numbers(code), "number")


def _glossary_day(rng: random.Random) -> Draft:
    return _glossary(rng, *_any(rng, _LATIN + _OTHER, _days), "day")


def _glossary_month(rng: random.Random) -> Draft:
    return _glossary(rng, *_any(rng, _LATIN + _OTHER, _months), "month")


def _echo_country(rng: random.Random) -> Draft:
    return _echo(rng, *_any(rng, _LATIN + _OTHER, _countries), "country")


def _translation(rng: random.Random, language: str, words: Words, kind: str) -> Draft:
    """One worked pair, then a word alone."""
    (shown, meaning), (word, answer) = rng.sample(words, 2)
    prompt = f"{language} to English\n{shown} = {meaning}\n{word} ="
    others = _but(rng, [english for _, english in words if english != meaning], answer)
    return _row(rng, prompt, answer, others, language, kind)


def _month(rng: random.Random) -> Draft:
    return _translation(rng, *_any(rng, _COGNATE, _months), "month")


def _country(rng: random.Random) -> Draft:
    return _translation(rng, *_any(rng, _LATIN, _countries), "country")


def _country_name(rng: random.Random) -> Draft:
    """From English, so that the foreign words are what is weighed."""
    language, words = _any(rng, _LATIN, _countries)
    (shown, meaning), (answer, english) = rng.sample(words, 2)
    prompt = f"English to {language}\n{meaning} = {shown}\n{english} ="
    others = _but(rng, [word for word, _ in words if word != shown], answer)
    return _row(rng, prompt, answer, others, language, "country")


def _number_in_english(rng: random.Random) -> Draft:
    code = rng.choice(tuple(_COUNTING))
    number = rng.randint(1, 20)
    language, answer = _COUNTING[code][0], _ENGLISH_NUMBERS[number]
    prompt = f"The {language} number '{_number(code, number)}' in English is"
    return _row(rng, prompt, answer, _but(rng, _ENGLISH_NUMBERS[1:], answer), language, "number")


def _named(rng: random.Random, language: str, words: Words, kind: str) -> Draft:
    word, answer = rng.choice(words)
    prompt = f"The {language} {kind} '{word}' in English is"
    others = _but(rng, [english for _, english in words], answer)
    return _row(rng, prompt, answer, others, language, kind)


def _day(rng: random.Random) -> Draft:
    return _named(rng, *_any(rng, _LATIN + _OTHER, _days), "day")


def _other_month(rng: random.Random) -> Draft:
    return _named(rng, *_any(rng, _OTHER, _months), "month")


def _other_country(rng: random.Random) -> Draft:
    return _named(rng, *_any(rng, _OTHER, _countries), "country")


def _next_number(rng: random.Random) -> Draft:
    code, start = rng.choice(tuple(_COUNTING)), rng.randint(1, 12)
    shown = [_number(code, number) for number in range(start, start + 3)]
    answer = _number(code, start + 3)
    near = [_number(code, start + shift) for shift in (-2, -1, 4, 5, 6) if 0 < start + shift <= 20]
    language = _COUNTING[code][0]
    prompt = f"Count in {language}: {', '.join(shown)},"
    return _row(rng, prompt, answer, _but(rng, near, answer), language, "number")


def _following(rng: random.Random, language: str, words: Words, kind: str) -> Draft:
    index, size = rng.randrange(len(words)), len(words)
    shown = [words[(index + shift) % size][0] for shift in range(3)]
    answer = words[(index + 3) % size][0]
    others = [words[(index + shift) % size][0] for shift in (4, 5, 6)]
    prompt = f"{kind.capitalize()}s in {language}: {', '.join(shown)},"
    return _row(rng, prompt, answer, others, language, kind)


def _next_day(rng: random.Random) -> Draft:
    return _following(rng, *_any(rng, _LATIN + _OTHER, _days), "day")


def _next_month(rng: random.Random) -> Draft:
    return _following(rng, *_any(rng, _LATIN + _OTHER, _months), "month")


def _digits(rng: random.Random) -> Draft:
    """A number of two or three digits among its neighbours and its own digits turned round."""
    code = rng.choice(_WIDE)
    language, largest = _COUNTING[code]
    number = rng.randint(21, largest)
    turned = int(str(number)[::-1])
    near = [turned, number + 10, number - 10, number + 1, number - 1, number + 100]
    others = pick(rng, list(dict.fromkeys(str(n) for n in near if n != number and n > 9)), 3)
    prompt = f"The {language} number '{_number(code, number)}' in digits is"
    return _row(rng, prompt, str(number), others, language, "number")


def _sum(rng: random.Random) -> Draft:
    code = rng.choice(tuple(_COUNTING))
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    language, answer = _COUNTING[code][0], _number(code, a + b)
    one, two, three = (_number(code, n) for n in (1, 2, 3))
    near = [_number(code, a + b + shift) for shift in (-3, -2, -1, 1, 2) if a + b + shift > 0]
    prompt = f"Sums in {language}:\n{one} + {two} = {three}\n"
    prompt += f"{_number(code, a)} + {_number(code, b)} ="
    return _row(rng, prompt, answer, _but(rng, near, answer), language, "number")


def _date(rng: random.Random) -> Draft:
    """A whole date; the wrong ones differ in the month, or as day and month changed places."""
    code = rng.choice(_LATIN + _OTHER)
    year, month, day = rng.randint(1950, 2030), rng.randint(1, 12), rng.randint(1, 12)
    written = format_date(datetime.date(year, month, day), "full", locale=code)
    answer = f"{year}-{month:02d}-{day:02d}"
    months = [m for m in range(1, 13) if m != month]
    others = [f"{year}-{m:02d}-{day:02d}" for m in rng.sample(months, 3)]
    if day != month:
        others[0] = f"{year}-{day:02d}-{month:02d}"
    others = list(dict.fromkeys(others))
    prompt = f"The {_name(code)} date '{written}' as year-month-day is"
    return _row(rng, prompt, answer, others, _name(code), "date")


TEMPLATES: tuple[Template, ...] = (
    Template("echo-number", 1, _echo_number),
    Template("glossary-day", 1, _glossary_day),
    Template("echo-country", 1, _echo_country),
    Template("glossary-month", 1, _glossary_month),
    Template("month", 2, _month),
    Template("country", 2, _country),
    Template("country-name", 2, _country_name),
    Template("number-in-english", 3, _number_in_english),
    Template("day", 3, _day),
    Template("other-month", 3, _other_month),
    Template("other-country", 3, _other_country),
    Template("next-number", 4, _next_number),
    Template("digits", 4, _digits),
    Template("next-day", 4, _next_day),
    Template("date", 4, _date),
    Template("sum", 4, _sum),
    Template("next-month", 4, _next_month),
)
