"""Every row's constraints are met by an answer that is built from them, and by its examples."""

from __future__ import annotations

import json
import re
import unicodedata

from qpipe.evaluation.generators import categories

FIELDS = {
    "words_at_most": {"n"},
    "words_at_least": {"n"},
    "starts_with": {"text"},
    "ends_with": {"text"},
    "includes": {"text"},
    "excludes": {"text"},
    "lines": {"n"},
    "bullets": {"n"},
    "upper_case": set(),
    "lower_case": set(),
    "json": set(),
    "repeats": {"text", "n"},
    "language": {"script"},
}


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def script_share(text, script):
    name = {"Han": "CJK"}.get(script, script.upper())
    letters = [unicodedata.name(sign, "") for sign in text if sign.isalpha()]
    return sum(letter.startswith(name) for letter in letters) / max(1, len(letters))


def meets(constraint, answer):
    text = answer.strip()
    lines = [line for line in text.splitlines() if line.strip()]
    value, count = constraint.get("text", ""), constraint.get("n", 0)
    return {
        "words_at_most": len(text.split()) <= count,
        "words_at_least": len(text.split()) >= count,
        "starts_with": text.startswith(value),
        "ends_with": text.endswith(value),
        "includes": value in text,
        "excludes": value not in text,
        "lines": len(lines) == count,
        "bullets": sum(line.startswith("- ") for line in lines) == count,
        "upper_case": text == text.upper(),
        "lower_case": text == text.lower(),
        "json": is_json(text),
        "repeats": len(re.findall(rf"\b{re.escape(value)}\b", text)) == count,
        "language": script_share(text, constraint.get("script", "")) > 0.9,
    }[constraint["kind"]]


def solved(constraints):
    """An answer that has all that is asked for and little else."""
    by = {}
    for constraint in constraints:
        by.setdefault(constraint["kind"], []).append(constraint)

    def first(kind, field, default):
        return by[kind][0][field] if kind in by else default

    texts = [constraint["text"] for constraint in by.get("includes", ())]
    if "json" in by:
        keys = [text for text in texts if text.startswith('"')]
        values = [text for text in texts if not text.startswith('"')]
        pairs = [f'{key}: "{value}"' for key, value in zip(keys, [*values, "x"], strict=False)]
        return "{" + ", ".join(pairs) + "}"
    script = first("language", "script", "Latin")
    filler = {"Han": "好", "Cyrillic": "да"}.get(script, "GO" if "upper_case" in by else "go")
    start, end = first("starts_with", "text", ""), first("ends_with", "text", "")
    for constraint in by.get("repeats", ()):
        texts += [constraint["text"]] * constraint["n"]
    if "bullets" in by:
        lines = [f"- {text}" for text in [*texts, *[filler] * by["bullets"][0]["n"]]]
        return "\n".join(lines[: by["bullets"][0]["n"]])
    missing = first("words_at_least", "n", 0) - len(" ".join([start, *texts, end]).split())
    middle = " ".join([*texts, *[filler] * missing])
    count = first("lines", "n", 1)
    if count == 1:
        return f"{start} {middle} {end}".strip()
    lines = [f"{start}{'' if end else middle}", *[filler] * (count - 2), end or filler]
    if end:
        lines[1] = middle
    return "\n".join(lines)


def test_constraints_are_of_the_known_kinds(release):
    seen = set()
    for row in release["instruction-following"]:
        assert row["scorer"] == "constraints" and row["reference"]
        for constraint in row["reference"]:
            assert constraint.keys() - {"kind"} == FIELDS[constraint["kind"]]
            assert all(constraint.values())
            seen.add(constraint["kind"])
    assert seen == FIELDS.keys()


def test_constraints_can_all_be_met_at_once(release):
    for row in release["instruction-following"]:
        answer = solved(row["reference"])
        unmet = [constraint for constraint in row["reference"] if not meets(constraint, answer)]
        assert not unmet, (unmet, answer)


def test_harder_rows_have_more_constraints(release):
    means = []
    for level in (1, 2, 3, 4):
        counts = [
            len(row["reference"])
            for row in release["instruction-following"]
            if row["level"] == level
        ]
        means.append(sum(counts) / len(counts))
    assert means == sorted(means)
    assert means[-1] > 3 * means[0]


def test_every_text_is_said_in_the_prompt(release):
    for row in release["instruction-following"]:
        said = row["prompt"].split("\n\n")[-1].casefold()
        for constraint in row["reference"]:
            text = constraint.get("text", "").strip('"')
            named = {",": "comma", "，": "逗号", "！": "感叹号"}.get(text, text)
            assert named.casefold() in said


def test_every_number_is_said_in_the_prompt(release):
    for row in release["instruction-following"]:
        said = re.findall(r"\d+", row["prompt"].split("\n\n")[-1])
        for constraint in row["reference"]:
            if "n" in constraint and constraint != {"kind": "lines", "n": 1}:
                assert str(constraint["n"]) in said, row


EXAMPLES = {
    "Write the word 'tea' 2 times.": [{"kind": "repeats", "text": "tea", "n": 2}],
    "Write the word 'milk' 4 times.": [{"kind": "repeats", "text": "milk", "n": 4}],
    "List 2 trees, each on a line that starts with '- '.": [{"kind": "bullets", "n": 2}],
    "List 3 metals, each on a line that starts with '- '.": [{"kind": "bullets", "n": 3}],
}


def stated(asked):
    """What an example asks for, read out of its words."""
    if "中文" in asked:
        return stated_chinese(asked)
    found = []
    for word, kind in (
        ("capital letters", "upper_case"),
        ("small letters", "lower_case"),
        ("JSON", "json"),
    ):
        found += [{"kind": kind}] if word in asked else []
    for pattern, kind in (
        (r"starts? with '([^']*[^' -][^']*)'", "starts_with"),
        (r"Start with '([^']*)'", "starts_with"),
        (r"ends? with '([^']*)'", "ends_with"),
        (r"(?:the word|Use|has the word|with) '(\w+)'", "includes"),
        (r"'\w+' and '(\w+)'", "includes"),
    ):
        found += [{"kind": kind, "text": text} for text in re.findall(pattern, asked)]
    for pattern, kind in (
        (r"at most (\d+) words", "words_at_most"),
        (r"at least (\d+) words", "words_at_least"),
        (r"(\d+) to \d+ words", "words_at_least"),
        (r"\d+ to (\d+) words", "words_at_most"),
        (r"(\d+) lines", "lines"),
    ):
        found += [{"kind": kind, "n": int(count)} for count in re.findall(pattern, asked)]
    if "comma" in asked:
        found.append({"kind": "excludes", "text": ","})
    return found


def stated_chinese(asked):
    found = [{"kind": "language", "script": "Han"}]
    found += [{"kind": "lines", "n": int(count)} for count in re.findall(r"(\d+)行", asked)]
    for pattern, kind in (
        (r"以“([^”]*)”开头", "starts_with"),
        (r"以“([^”]*)”结尾", "ends_with"),
        (r"要有“([^”]*)”", "includes"),
        (r"要有“[^”]*”和“([^”]*)”", "includes"),
        (r"不要用“([^”]*)”", "excludes"),
    ):
        found += [{"kind": kind, "text": text} for text in re.findall(pattern, asked)]
    for word, sign in (("逗号", "，"), ("感叹号", "！")):
        found += [{"kind": "excludes", "text": sign}] if word in asked else []
    return found


def test_chinese_is_read_whole(release):
    read = set()
    for row in release["instruction-following"]:
        if "zh" in row["tags"]:
            asked = row["prompt"].split("\n\n")[-1].removesuffix("\nAnswer:")
            kinds = [sorted(map(str, some)) for some in (stated_chinese(asked), row["reference"])]
            assert kinds[0] == kinds[1], asked
            read.add(row["tags"][0])
    assert read == {f"template:{name}-zh" for name in ("include", "lines", "letter")}


def test_worked_examples_meet_what_they_ask_for(release):
    shown = {
        block
        for row in release["instruction-following"]
        for block in row["prompt"].split("\n\n")[:-1]
    }
    assert len(shown) >= len(categories()["instruction-following"])
    for block in shown:
        asked, answer = re.split(r"\nAnswer:\s", block)
        constraints = EXAMPLES.get(asked) or stated(asked)
        assert constraints, asked
        assert [c for c in constraints if not meets(c, answer)] == [], block


def test_answers_end_where_the_next_instruction_would_start(release):
    for row in release["instruction-following"]:
        (stop,) = row["stop"]
        *shown, asked = row["prompt"].split("\n\n")
        many = "\n" in "".join(block.split("\nAnswer:")[1] for block in shown)
        assert stop == "\n" if not many else f"\n\n{asked}".startswith(stop)
