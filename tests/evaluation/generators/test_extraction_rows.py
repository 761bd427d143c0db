from __future__ import annotations

import datetime
import re

COMPUTED = ("items", "total", "date")


def question(row):
    return row["prompt"].split("\n\n")[-1].removesuffix("\nAnswer:")


def test_what_is_asked_is_in_the_text(release):
    for row in release["extraction"]:
        text = question(row)
        if row["scorer"] == "contains":
            assert row["reference"] in text
        if row["scorer"] == "numeric":
            assert f"{row['reference']:.2f}" in text
        if row["scorer"] == "json_fields":
            computed = COMPUTED if row["level"] == 4 else ()
            for key, value in row["reference"].items():
                assert key in computed or str(value) in text, (key, row)


def test_rewritten_dates_and_totals_are_right(release):
    rows = [row for row in release["extraction"] if row["tags"][0] == "template:invoice-json"]
    assert rows
    for row in rows:
        date = re.search(r"on (\d+ \w+ \d{4})", question(row))[1]
        assert (
            datetime.datetime.strptime(date, "%d %B %Y").date().isoformat()
            == row["reference"]["date"]
        )
        amounts = [int(amount) for amount in re.findall(r"for (\d+) EUR", question(row))]
        assert (sum(amounts), len(amounts)) == (
            row["reference"]["total"],
            row["reference"]["items"],
        )


def test_the_last_word_counts_in_a_correction(release):
    rows = [row for row in release["extraction"] if "correction" in row["tags"]]
    assert {"zh" in row["tags"] for row in rows} == {True, False}
    for row in rows:
        text, reference = question(row), row["reference"]
        if "zh" in row["tags"]:
            assert re.search(r"后来同事说要(\d+)个，地址也改成(.*)了", text).groups() == (
                str(reference["数量"]),
                reference["城市"],
            )
        else:
            count, day = re.search(r"says (\d+), and the (\d+)(?:st|nd|rd|th)", text).groups()
            month = re.search(r"by \d+ (\w+)\.", text)[1]
            assert (int(count), f"{day} {month}") == (reference["count"], reference["date"])


def test_cells_are_of_the_row_that_is_named(release):
    rows = [row for row in release["extraction"] if row["tags"][0] == "template:table"]
    assert rows
    for row in rows:
        head, *lines, asked = question(row).split("\n")
        column, city = re.fullmatch(r"Which (\w+) goes with (\w+)\?", asked).groups()
        (cells,) = (cells for line in lines if city in (cells := line.split(" | ")))
        assert cells[head.split(" | ").index(column)] == row["reference"]


def test_no_two_answers_of_a_row_are_the_same(release):
    for row in release["extraction"]:
        if row["scorer"] == "json_fields":
            texts = [value for value in row["reference"].values() if isinstance(value, str)]
            assert len(set(texts)) == len(texts)
