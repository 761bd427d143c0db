from __future__ import annotations

import itertools
import re
from collections import Counter

from qpipe.evaluation.generators import categories, draw


def rows_of(rows, template):
    found = [row for row in rows if row["tags"][0] == f"template:{template}"]
    assert found
    return found


def question(row):
    return row["prompt"].split("\n\n")[-1].removesuffix("\nAnswer:")


def test_every_label_is_an_answer_and_none_too_often():
    rows = draw("classification", categories()["classification"], 5, 600)
    for template in {row["tags"][0] for row in rows}:
        answers = Counter(row["reference"] for row in rows_of(rows, template.split(":")[1]))
        labels = next(row["choices"] for row in rows if row["tags"][0] == template)
        assert answers.keys() == set(labels)
        assert max(answers.values()) <= 1.8 * answers.total() / len(labels), (template, answers)


def test_labels_are_named_in_the_prompt(release):
    for row in release["classification"]:
        if row["tags"][0] != "template:inference":
            for choice in row["choices"]:
                assert choice in row["prompt"].split("\n\n")[0]


def test_rules_give_the_label(release):
    for row in rows_of(release["classification"], "policy"):
        text = question(row)
        limit, dear = (
            int(n) for n in re.search(r"more than (\d+) days .* more than \$(\d+)", text).groups()
        )
        days, price = (int(n) for n in re.search(r"(\d+) days ago for \$(\d+)", text).groups())
        new = "sealed box" in text or "never opened" in text
        right = [
            (days > limit, "refuse"),
            (days <= limit and new, "refund"),
            (days <= limit and not new and price > dear, "exchange"),
            (days <= limit and not new and price <= dear, "voucher"),
        ]
        assert [label for holds, label in right if holds] == [row["reference"]]


WORLDS = list(itertools.product((False, True), repeat=8))
KINDS = list(itertools.product((False, True), repeat=3))


def holds(sentence, world, person, place):
    """Whether a sentence is true where ``world`` says which of the eight kinds of people exist."""
    people = [kind for kind, there in zip(KINDS, world, strict=True) if there]
    words = {noun: index for index, noun in enumerate(place)}
    if found := re.fullmatch(r"(All|No|Some) (\w+) are (not )?(\w+)", sentence):
        quantity, a, negated, b = found.groups()
        of_a = [kind[words[b]] != bool(negated) for kind in people if kind[words[a]]]
        return {"All": all(of_a), "No": not any(of_a), "Some": any(of_a)}[quantity]
    if found := re.fullmatch(r"There are (\w+), and all of them are (\w+)", sentence):
        of_a = [kind[words[found[2]]] for kind in people if kind[words[found[1]]]]
        return bool(of_a) and all(of_a)
    found = re.fullmatch(r"\w+ is (not )?one of the (\w+)", sentence)
    return person[words[found[2]]] != bool(found[1])


def test_what_follows_follows_in_every_world(release):
    for row in rows_of(release["classification"], "inference"):
        premises, claim = question(row).split("\n")
        if "knows" in claim:
            assert row["reference"] == "open"
            continue
        place = sorted(set(re.findall(r"\b[a-z]+s\b", f"{premises} {claim}")) - {"is"})
        assert len(place) == 3
        sentences = premises.removesuffix(".").split(". ")
        truths = {
            holds(claim.removesuffix("."), world, person, place)
            for world in WORLDS
            for person in (kind for kind, there in zip(KINDS, world, strict=True) if there)
            if all(holds(sentence, world, person, place) for sentence in sentences)
        }
        assert (
            truths
            == {"follows": {True}, "contradicts": {False}, "open": {True, False}}[row["reference"]]
        )


ASPECTS = {"food": "food", "service": "waiters", "price": "bill", "room": "room", "view": "view"}
GOOD = ("delicious", "quick", "lower", "bright", "dream")


def test_aspects_are_judged_by_their_own_clause(release):
    for row in rows_of(release["classification"], "aspect"):
        text, asked = question(row).split("\nThe ")
        clauses = re.split(", and |, |^At the (?:inn|hotel|guest house|lodge) ", text)
        about = [clause for clause in clauses if f"the {ASPECTS[asked.rstrip(':')]}" in clause]
        label = (
            "not mentioned"
            if not about
            else "positive"
            if any(g in about[0] for g in GOOD)
            else "negative"
        )
        assert row["reference"] == label


def test_the_settled_matter_is_another_department_than_the_answer(release):
    """The sentence that names the wish is also a plain ticket of the department."""
    plain = {}
    for row in release["classification"]:
        if row["tags"][0] in ("template:ticket", "template:ticket-bare", "template:ticket-zh"):
            plain[re.sub(r"\d+", "#", question(row))] = row["reference"]
    for template in ("real-wish", "real-wish-zh"):
        checked = 0
        for row in rows_of(release["classification"], template):
            text = re.sub(r"\d+", "#", question(row))
            settled = re.search("'(.*)'|“(.*)”", text)[0][1:-1]
            wish = text.replace(settled, "")
            assert plain.get(settled) != row["reference"]
            known = [label for ticket, label in plain.items() if ticket in wish]
            assert known in ([], [row["reference"]])
            checked += len(known)
        assert checked > 0
