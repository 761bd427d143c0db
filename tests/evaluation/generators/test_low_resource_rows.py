from __future__ import annotations

import random
import re
import unicodedata

import pytest

from qpipe.evaluation.generators import categories, draw

SCRIPTS = {
    "Amharic": "ETHIOPIC",
    "Armenian": "ARMENIAN",
    "Azerbaijani": "LATIN",
    "Bangla": "BENGALI",
    "Chechen": "CYRILLIC",
    "Georgian": "GEORGIAN",
    "Hausa": "LATIN",
    "Kannada": "KANNADA",
    "Kazakh": "CYRILLIC",
    "Khmer": "KHMER",
    "Lao": "LAO",
    "Nepali": "DEVANAGARI",
    "Somali": "LATIN",
    "Swahili": "LATIN",
    "Tajik": "CYRILLIC",
    "Tamil": "TAMIL",
    "Telugu": "TELUGU",
    "Tetum": "LATIN",
    "Thai": "THAI",
    "Welsh": "LATIN",
    "Yoruba": "LATIN",
    "Zulu": "LATIN",
}
# From grammars and dictionaries, not from the libraries that the rows come from.
KNOWN = {
    "Swahili": {
        "Jumatatu": "Monday",
        "Jumanne": "Tuesday",
        "Jumatano": "Wednesday",
        "Alhamisi": "Thursday",
        "Ijumaa": "Friday",
        "Jumamosi": "Saturday",
        "Jumapili": "Sunday",
        "Januari": "January",
        "Februari": "February",
        "Machi": "March",
        "Mei": "May",
        "Juni": "June",
        "Julai": "July",
        "Agosti": "August",
        "Desemba": "December",
        "Misri": "Egypt",
        "Ujerumani": "Germany",
        "Ufaransa": "France",
        "Uchina": "China",
    },
    "Hausa": {
        "Litinin": "Monday",
        "Talata": "Tuesday",
        "Laraba": "Wednesday",
        "Alhamis": "Thursday",
        "Asabar": "Saturday",
        "Lahadi": "Sunday",
    },
    "Amharic": {
        "ሰኞ": "Monday",
        "ማክሰኞ": "Tuesday",
        "ረቡዕ": "Wednesday",
        "ሐሙስ": "Thursday",
        "ዓርብ": "Friday",
        "ቅዳሜ": "Saturday",
        "እሑድ": "Sunday",
        "አንድ": "one",
        "ሁለት": "two",
        "ሦስት": "three",
        "አራት": "four",
        "አምስት": "five",
        "ስድስት": "six",
        "ሰባት": "seven",
        "ስምንት": "eight",
        "ዘጠኝ": "nine",
        "አሥር": "ten",
    },
    "Thai": {"หนึ่ง": "one", "สอง": "two", "สาม": "three", "สี่": "four", "ห้า": "five"},
    "Bangla": {"এক": "one", "দুই": "two", "তিন": "three", "চার": "four", "পাঁচ": "five"},
    "Welsh": {"un": "one", "dau": "two", "tri": "three", "pump": "five", "deg": "ten"},
    "Telugu": {"ఒకటి": "one", "రెండు": "two", "మూడు": "three", "ఆరు": "six", "పది": "ten"},
    "Kazakh": {"бір": "one", "екі": "two", "бес": "five", "он": "ten", "қараша": "November"},
}


@pytest.fixture(scope="module")
def rows():
    return draw("low-resource", categories()["low-resource"], 3, 600)


def pair(row):
    """The foreign word that is asked for and its English, either way round."""
    lines = row["prompt"].removesuffix("\nAnswer:").split("\n")
    quoted = re.search(r"'(.*)'", lines[-1])
    word = quoted[1] if quoted else lines[-1].removesuffix(" =")
    return (
        (row["reference"], word) if lines[0].startswith("English to") else (word, row["reference"])
    )


def scripts(text):
    names = {unicodedata.name(sign).split()[0] for sign in text if sign.isalpha()}
    return names - {"MODIFIER"}  # Hausa's apostrophe


def test_there_are_many_languages_and_scripts_in_every_draw(release):
    for rows in (release["low-resource"], release["low-resource"][:40]):
        languages = {row["tags"][1] for row in rows}
        assert len(languages) >= 8
        assert len({SCRIPTS[language] for language in languages}) >= 4
    for level in (1, 3, 4):
        languages = {row["tags"][1] for row in release["low-resource"] if row["level"] == level}
        assert len({SCRIPTS[language] for language in languages}) >= 4


def test_the_foreign_words_are_in_the_script_of_their_language(rows):
    for row in rows:
        language, kind = row["tags"][1:]
        foreign = pair(row)[0]
        if row["reference"] in foreign or row["tags"][0] in (
            "template:next-number", "template:next-day", "template:next-month", "template:sum",
        ):  # fmt: skip
            foreign = "".join(row["choices"])
        assert scripts(foreign) == {SCRIPTS[language]}, row
        assert kind in ("number", "day", "month", "date", "country")


def test_no_foreign_word_is_english(rows):
    for row in rows:
        if row["level"] < 4:
            word, english = pair(row)
            assert word.casefold() != english.casefold()
            assert word.casefold() not in {choice.casefold() for choice in row["choices"]} - {
                word.casefold()
            }


def test_known_words_agree(rows):
    seen = set()
    for row in rows:
        word, english = pair(row)
        known = KNOWN.get(row["tags"][1], {})
        if row["level"] < 4 and word in known:
            assert known[word] == english
            seen.add(word)
    assert len(seen) > 25, len(seen)


def test_choices_are_different_and_hold_the_answer(rows):
    for row in rows:
        assert row["reference"] in row["choices"]
        assert len(set(row["choices"])) == len(row["choices"]) >= 2


def test_glossaries_hold_the_answer(rows):
    for row in rows:
        if row["level"] == 1:
            assert "{} = {}\n".format(*pair(row)) in row["prompt"]


THAI = ("", "หนึ่ง", "สอง", "สาม", "สี่", "ห้า", "หก", "เจ็ด", "แปด", "เก้า")


def thai(number):
    """The rules of a grammar: twenty is yi sip, and a one behind tens or hundreds is et."""
    hundreds, rest = divmod(number, 100)
    tens, ones = divmod(rest, 10)
    text = THAI[hundreds] + "ร้อย" if hundreds else ""
    text += {0: "", 1: "สิบ", 2: "ยี่สิบ"}.get(tens, THAI[tens] + "สิบ")
    return text + ("เอ็ด" if ones == 1 and number > 10 else THAI[ones])


def kazakh(number):
    ones = ("", "бір", "екі", "үш", "төрт", "бес", "алты", "жеті", "сегіз", "тоғыз")
    tens = ("", "он", "жиырма", "отыз", "қырық", "елу", "алпыс", "жетпіс", "сексен", "тоқсан")
    hundreds, rest = divmod(number, 100)
    parts = [ones[hundreds] if hundreds > 1 else "", "жүз" if hundreds else ""]
    return " ".join(part for part in (*parts, tens[rest // 10], ones[rest % 10]) if part)


def tetum(number):
    ones = ("", "ida", "rua", "tolu", "haat", "lima", "neen", "hitu", "ualu", "sia")
    hundreds, rest = divmod(number, 100)
    tens, last = divmod(rest, 10)
    ten = {0: "", 1: "sanulu", 6: "neenulu"}.get(tens, f"{ones[tens]}nulu")
    parts = [f"atus {ones[hundreds]}" if hundreds else "", ten]
    parts.append(f"resin {ones[last]}" if last and tens else ones[last])
    return " ".join(part for part in parts if part)


SPELT = pytest.mark.parametrize(
    ("language", "spell"), [("Thai", thai), ("Kazakh", kazakh), ("Tetum", tetum)]
)


def many(name):
    """Drafts of one template."""
    (template,) = (made for made in categories()["low-resource"] if made.name == name)
    rng = random.Random(1)
    return [template.make(rng) for _ in range(500)]


@SPELT
def test_long_number_words_follow_the_rules_of_the_language(language, spell):
    found = [row for row in many("digits") if row["tags"][0] == language]
    assert len(found) > 20
    for row in found:
        assert pair(row)[0] == spell(int(row["reference"]))


@SPELT
def test_sums_and_counts_are_right(language, spell):
    number = {spell(number): number for number in range(1, 25)}
    sums = [row for row in many("sum") if row["tags"][0] == language]
    counts = [row for row in many("next-number") if row["tags"][0] == language]
    assert min(len(sums), len(counts)) > 20
    for row in sums:
        a, b = row["prompt"].split("\n")[-1].removesuffix(" =").split(" + ")
        assert number[a] + number[b] == number[row["reference"]]
    for row in counts:
        shown = row["prompt"].split(": ")[1].removesuffix(",").split(", ")
        assert [number[row["reference"]] - number[word] for word in shown] == [3, 2, 1]


def test_dates_say_the_day_and_the_year(rows):
    found = [row for row in rows if row["tags"][0] == "template:date"]
    assert len({row["tags"][1] for row in found}) >= 8
    for row in found:
        year, _, day = row["reference"].split("-")
        written = set(re.findall(r"\d+", pair(row)[0]))
        assert year in written and written & {day, str(int(day))}
