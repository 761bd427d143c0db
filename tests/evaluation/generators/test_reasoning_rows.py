"""Every story is played again from its text."""

from __future__ import annotations

import calendar
import itertools
import re
import string

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORDERS = (DAYS, calendar.month_name, string.ascii_uppercase)


def blocks(row):
    """Worked questions with their answers, and the row's own with its reference."""
    *solved, asked = row["prompt"].split("\n\n")
    for block in solved:
        yield block.split("\nAnswer: ")
    yield asked.removesuffix("\nAnswer:"), str(row["reference"])


def swapped(text):
    held = dict(re.findall(r"(\w+) has a (\w+)", text))
    for a, b in re.findall(r"(\w+) and (\w+) swap", text):
        held[a], held[b] = held[b], held[a]
    return held[re.search(r"does (\w+) have now", text)[1]]


def swapped_chinese(text):
    held = dict(re.findall(r"(小.)有(\w+?)[，。]", text.split("现在")[0]))
    for a, b in re.findall(r"(小.)和(小.)交换", text):
        held[a], held[b] = held[b], held[a]
    return held[re.search(r"现在(小.)有", text)[1]]


def ranked(text):
    taller = re.findall(r"(\w+) is taller than (\w+)", text)
    names = {name for pair in taller for name in pair}

    def below(name):
        return {name}.union(*(below(b) for a, b in taller if a == name))

    order = sorted(names, key=lambda name: -len(below(name)))
    assert [len(below(name)) for name in order] == list(range(len(order), 0, -1)), text
    rank = re.search(r"Who is the (.*)\?", text)[1]
    place = {"second": 1, "third": 2}.get(rank.split()[0], 0)
    return order[place] if rank.endswith("tallest") else order[-1 - place]


def walked(text):
    day = DAYS.index(re.search(r"Start on (\w+)", text)[1])
    for count, way in re.findall(r"go (\d+) days (on|back)", text):
        for _ in range(int(count)):
            day = (day + (1 if way == "on" else -1)) % 7
    return DAYS[day]


def later(text):
    today, days = re.search(r"Today is (\w+)\. .* in (\d+) days", text).groups()
    return DAYS[(DAYS.index(today) + int(days)) % 7]


def beside(text):
    today, word = re.search(r"Today is (\w+)\. .* (tomorrow|yesterday)\?", text).groups()
    return DAYS[(DAYS.index(today) + (1 if word == "tomorrow" else 6)) % 7]


def given(text):
    held = {name: int(count) for name, count in re.findall(r"(\w+) has (\d+) coins", text)}
    for giver, count, taker in re.findall(r"(\w+) gives (\d+) to (\w+)", text):
        assert held[giver] >= int(count)
        held[giver] -= int(count)
        held[taker] += int(count)
    return str(held[re.search(r"coins does (\w+) have", text)[1]])


def placed(text):
    asked = re.search(r"Where is the (\w+)\?", text)[1]
    first = re.findall(rf"the {asked} in the (\w+)", text)
    return (first + re.findall(rf"moved the {asked} to the (\w+)", text))[-1]


def nested(text):
    where = {}
    for sentence in text.split(". "):
        if found := re.match(r"The (\w+) (?:is in|goes to|is put into) the (\w+)", sentence):
            where[found[1]] = found[2]
    at = re.search(r"room is the (\w+)\?", text)[1]
    while at in where:
        at = where[at]
    return at


def judged(text):
    """The only assignment of honest and lying that agrees with all that is said."""
    names = list(dict.fromkeys(re.findall(r"\b[A-Z][a-z]+\b(?= (?:lies|tells|says))", text)))
    asked = re.search(r"Does (\w+) tell the truth", text)[1]
    answers = set()
    for values in itertools.product((True, False), repeat=len(names)):
        honest = dict(zip(names, values, strict=True))

        def holds(sentence, honest=honest):
            if said := re.fullmatch(r"(\w+) says that (.*)", sentence):
                return honest[said[1]] == holds(said[2])
            name, claim = sentence.split(" ", 1)
            return honest[name] == (claim == "tells the truth")

        if all(holds(sentence) for sentence in text.split(". ")[:-1]):
            answers.add(honest[asked])
    (answer,) = answers
    return "Yes" if answer else "No"


def older(text):
    return max(re.findall(r"(小.)(\d+)岁", text), key=lambda pair: int(pair[1]))[0]


def holder(text):
    pairs = re.findall(r"(\w+) has the (\w+)\.", text)
    asked = re.search(r"Who has the (\w+)\?", text)[1]
    return next(name for name, thing in pairs if thing == asked)


def holder_chinese(text):
    said, asked = text.split("。")
    return next(
        name for name, thing in re.findall(r"(小.)有(\w+)", said) if asked == f"谁有{thing}？"
    )


def stated(text):
    real, asked = re.search(r"is (\w+)\. Is the \w+ (\w+)\?", text).groups()
    return "Yes" if real == asked else "No"


def found(text):
    thing, place, asked = re.search(
        r"The (\w+) is in the (\w+)\. Where is the (\w+)\?", text
    ).groups()
    assert thing == asked
    return place


SOLVERS = {
    "where": found,
    "stated": stated,
    "who-has": holder,
    "who-has-zh": holder_chinese,
    "moved": placed,
    "tallest": ranked,
    "larger": lambda text: max(re.findall(r"\d+", text), key=int),
    "tomorrow": beside,
    "older-zh": older,
    "swaps": swapped,
    "days-later": later,
    "order": ranked,
    "carried": placed,
    "transfers": given,
    "swaps-zh": swapped_chinese,
    "many-swaps": swapped,
    "long-order": ranked,
    "days-chain": walked,
    "nested": nested,
    "many-transfers": given,
    "liars": judged,
    "many-swaps-zh": swapped_chinese,
}


def goes_on(row, words, right):
    """Whether the row's pattern takes answers that start with ``right``, and no other."""
    (wrong, *_) = others = [word for word in words if word != right]
    taken = [right, f" {right}", f" {right.upper()}.", f"{right} {wrong}", f"'{right}', {wrong}"]
    refused = ["", *others, f"{wrong} {right}", f"{wrong}, {wrong}, {right}", f"{right}{wrong}"]
    refused += [f"{right}-{wrong}", f"The {right}", f"x{right}"]
    hits = [text for text in [*taken, *refused] if re.search(row["reference"], text)]
    return row["scorer"] == "regex" and hits == taken


def test_references_and_worked_examples_are_right(release):
    for row in release["reasoning"]:
        template = row["tags"][0].removeprefix("template:")
        if template == "alternate":
            shown = row["prompt"].split()[1:]
            (answer,) = set(shown[1::2])
            assert len(shown) % 2 == 1 and goes_on(row, shown[-2:] * 2, answer)
            continue
        if template == "sequence":
            names = re.findall(r"\w+", row["prompt"].removeprefix("Go on: "))
            order = next(list(one) for one in ORDERS if names[0] in one and names[1] in one)
            at = order.index(names[0])
            assert order[at : at + 4] == names
            assert goes_on(row, [name for name in order if name], order[at + 4])
            continue
        for text, answer in blocks(row):
            assert SOLVERS[template](text) == answer.removeprefix("in the "), text


def test_the_hardest_rows_are_long_chains(release):
    hard = [row for row in release["reasoning"] if row["level"] == 4]
    assert all("chain" in row["tags"] for row in hard)
    assert min(len(re.split("[.。]", row["prompt"].split("\n\n")[-1])) for row in hard) >= 7


def test_both_answers_of_a_yes_no_question_come(release):
    for template in ("stated", "liars"):
        answers = [
            row["reference"]
            for row in release["reasoning"]
            if row["tags"][0] == f"template:{template}"
        ]
        assert set(answers) == {"Yes", "No"}
