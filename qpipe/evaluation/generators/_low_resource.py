"""Everyday words of languages that calibration sets and models see little of."""

from __future__ import annotations

import random
from collections.abc import Mapping

from qpipe.evaluation.generators._draw import Draft, Maker, pick

__all__ = ["MAKERS"]

_SWAHILI = "Swahili"
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "Swahili": ("moja", "mbili", "tatu", "nne", "tano", "sita", "saba", "nane", "tisa", "kumi"),
    "Hausa": ("ɗaya", "biyu", "uku", "huɗu", "biyar", "shida", "bakwai", "takwas", "tara", "goma"),
    "Yoruba": (
        "ọ̀kan",
        "méjì",
        "mẹ́ta",
        "mẹ́rin",
        "márùn-ún",
        "mẹ́fà",
        "méje",
        "mẹ́jọ",
        "mẹ́sàn-án",
        "mẹ́wàá",
    ),
    "Amharic": ("አንድ", "ሁለት", "ሦስት", "አራት", "አምስት", "ስድስት", "ሰባት", "ስምንት", "ዘጠኝ", "አሥር"),
    "Somali": (
        "kow",
        "laba",
        "saddex",
        "afar",
        "shan",
        "lix",
        "toddoba",
        "siddeed",
        "sagaal",
        "toban",
    ),
}
_ENGLISH_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_DAYS: Mapping[str, tuple[str, ...]] = {
    "Swahili": ("Jumatatu", "Jumanne", "Jumatano", "Alhamisi", "Ijumaa", "Jumamosi", "Jumapili"),
    "Hausa": ("Litinin", "Talata", "Laraba", "Alhamis", "Jumma'a", "Asabar", "Lahadi"),
    "Amharic": ("ሰኞ", "ማክሰኞ", "ረቡዕ", "ሐሙስ", "ዓርብ", "ቅዳሜ", "እሑድ"),
}
_ENGLISH_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    ("Januari", "January"),
    ("Februari", "February"),
    ("Machi", "March"),
    ("Aprili", "April"),
    ("Juni", "June"),
    ("Julai", "July"),
    ("Agosti", "August"),
    ("Septemba", "September"),
    ("Oktoba", "October"),
    ("Novemba", "November"),
    ("Desemba", "December"),
)
_NOUNS: Mapping[str, Mapping[str, str]] = {
    "Swahili": {
        "maji": "water",
        "chakula": "food",
        "nyumba": "house",
        "mtoto": "child",
        "kitabu": "book",
        "rafiki": "friend",
        "shule": "school",
        "samaki": "fish",
        "mti": "tree",
        "jua": "sun",
        "moto": "fire",
        "mbwa": "dog",
        "paka": "cat",
        "maziwa": "milk",
        "mkate": "bread",
    },
    "Hausa": {
        "ruwa": "water",
        "gida": "house",
        "littafi": "book",
        "kifi": "fish",
        "kare": "dog",
        "wuta": "fire",
        "abinci": "food",
        "kasuwa": "market",
        "doki": "horse",
        "gishiri": "salt",
    },
    "Yoruba": {
        "omi": "water",
        "ilé": "house",
        "ìwé": "book",
        "ẹja": "fish",
        "ajá": "dog",
        "iná": "fire",
        "oúnjẹ": "food",
        "ọjà": "market",
        "ọmọ": "child",
        "igi": "tree",
    },
    "Amharic": {
        "ውሃ": "water",
        "ቤት": "house",
        "መጽሐፍ": "book",
        "ዓሣ": "fish",
        "ውሻ": "dog",
        "እሳት": "fire",
        "ልጅ": "child",
        "ወተት": "milk",
        "ቡና": "coffee",
        "ዳቦ": "bread",
    },
    "Somali": {
        "biyo": "water",
        "guri": "house",
        "buug": "book",
        "kalluun": "fish",
        "eey": "dog",
        "dab": "fire",
        "caano": "milk",
    },
    "Zulu": {
        "amanzi": "water",
        "indlu": "house",
        "incwadi": "book",
        "inja": "dog",
        "umlilo": "fire",
        "ukudla": "food",
        "ubisi": "milk",
        "ilanga": "sun",
    },
}
_PHRASES: Mapping[str, Mapping[str, str]] = {
    "Swahili": {
        "asante": "thank you",
        "karibu": "welcome",
        "kwaheri": "goodbye",
        "ndiyo": "yes",
        "hapana": "no",
        "tafadhali": "please",
    },
    "Hausa": {"na gode": "thank you", "sannu": "hello", "barka da zuwa": "welcome", "a'a": "no"},
    "Yoruba": {"ẹ ṣé": "thank you", "ẹ káàbọ̀": "welcome", "bẹ́ẹ̀ni": "yes", "ó dàbọ̀": "goodbye"},
    "Amharic": {"አመሰግናለሁ": "thank you", "ሰላም": "hello", "አዎ": "yes"},
    "Zulu": {"ngiyabonga": "thank you", "sawubona": "hello"},
    "Somali": {"mahadsanid": "thank you", "haa": "yes", "maya": "no"},
}
_MEANINGS = ("thank you", "welcome", "goodbye", "hello", "yes", "no", "please")


def _row(
    rng: random.Random, prompt: str, answer: str, others: list[str], level: int, *tags: str
) -> Draft:
    choices = [answer, *others]
    rng.shuffle(choices)
    return {
        "prompt": prompt,
        "reference": answer,
        "scorer": "choice",
        "choices": choices,
        "tags": list(tags),
        "level": level,
    }


def _but(rng: random.Random, items: tuple[str, ...] | list[str], answer: str) -> list[str]:
    return pick(rng, [item for item in items if item != answer], 3)


def _glossary(rng: random.Random) -> Draft:
    language = rng.choice(tuple(_NOUNS))
    words = pick(rng, tuple(_NOUNS[language]), 3)
    asked = rng.choice(words)
    meanings = [_NOUNS[language][word] for word in words]
    lines = "\n".join(f"{word} = {meaning}" for word, meaning in zip(words, meanings, strict=True))
    answer = _NOUNS[language][asked]
    others = [meaning for meaning in meanings if meaning != answer]
    prompt = f"{language} words:\n{lines}\nWhat does the {language} word '{asked}' mean?\nAnswer:"
    return _row(rng, prompt, answer, others, 1, language, "glossary")


def _month(rng: random.Random) -> Draft:
    word, answer = rng.choice(_MONTHS)
    prompt = "Swahili to English\nMei = May\n" + f"{word} ="
    others = _but(rng, [english for _, english in _MONTHS], answer)
    return _row(rng, prompt, answer, others, 1, _SWAHILI, "month")


def _phrase(rng: random.Random) -> Draft:
    language = rng.choice(tuple(_PHRASES))
    word, answer = rng.choice(tuple(_PHRASES[language].items()))
    prompt = f"In {language}, '{word}' means:"
    level = 2 if language == _SWAHILI else 3
    return _row(rng, prompt, answer, _but(rng, _MEANINGS, answer), level, language, "greeting")


def _swahili_noun(rng: random.Random) -> Draft:
    return _noun(rng, _SWAHILI, 2)


def _other_noun(rng: random.Random) -> Draft:
    return _noun(rng, rng.choice([name for name in _NOUNS if name != _SWAHILI]), 3)


def _noun(rng: random.Random, language: str, level: int) -> Draft:
    word, answer = rng.choice(tuple(_NOUNS[language].items()))
    prompt = f"What is the English word for the {language} word '{word}'?\nAnswer:"
    others = _but(rng, tuple(_NOUNS[language].values()), answer)
    return _row(rng, prompt, answer, others, level, language, "noun")


def _next_number(rng: random.Random) -> Draft:
    language, start = rng.choice(tuple(_NUMBERS)), rng.randint(0, 6)
    numbers = _NUMBERS[language]
    shown, answer = numbers[start : start + 3], numbers[start + 3]
    others = pick(rng, [word for word in numbers if word not in (*shown, answer)], 3)
    prompt = f"Count in {language}: {', '.join(shown)},"
    return _row(rng, prompt, answer, others, 2 if language == _SWAHILI else 3, language, "number")


def _number(rng: random.Random) -> Draft:
    language, index = rng.choice(tuple(_NUMBERS)), rng.randrange(10)
    answer = _ENGLISH_NUMBERS[index]
    prompt = f"The {language} number '{_NUMBERS[language][index]}' in English is"
    level = 2 if language == _SWAHILI else 3
    return _row(rng, prompt, answer, _but(rng, _ENGLISH_NUMBERS, answer), level, language, "number")


def _day(rng: random.Random) -> Draft:
    language, index = rng.choice(tuple(_DAYS)), rng.randrange(7)
    answer = _ENGLISH_DAYS[index]
    prompt = f"The {language} day '{_DAYS[language][index]}' in English is"
    return _row(rng, prompt, answer, _but(rng, _ENGLISH_DAYS, answer), 3, language, "day")


def _next_day(rng: random.Random) -> Draft:
    language, index = rng.choice(tuple(_DAYS)), rng.randrange(7)
    days = _DAYS[language]
    shown = [days[(index + shift) % 7] for shift in range(3)]
    answer = days[(index + 3) % 7]
    others = [days[(index + shift) % 7] for shift in (4, 5, 6)]
    prompt = f"Days in {language}: {', '.join(shown)},"
    return _row(rng, prompt, answer, others, 4, language, "day")


MAKERS: tuple[Maker, ...] = (
    _glossary,
    _month,
    _phrase,
    _swahili_noun,
    _next_number,
    _glossary,
    _number,
    _other_noun,
    _month,
    _day,
    _next_day,
)
