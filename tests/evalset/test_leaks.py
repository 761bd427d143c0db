from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.evalset._leaks import Leak, Text, find_leaks

SENTENCE = "the quick brown fox jumps over the lazy dog while seven grey geese fly south"
HAN = "小明昨天在图书馆借了三本关于中国历史的厚书准备周末读完"
THAI = "เมื่อวานนี้ฉันไปตลาดซื้อผลไม้และผักสดกลับบ้าน"


def text(content: str, where: str = "x", group: str = "g") -> Text:
    return Text(where, "prompt", group, content)


def leaks(target: str, source: str) -> list[Leak]:
    return find_leaks([text(target)], [text(source, "calib.txt")])


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (f"Say it: {SENTENCE}!", f"Once {SENTENCE}."),
        (SENTENCE.title(), SENTENCE.replace(" ", ",\n ")),
        (HAN, f"从前，{HAN}。"),
        ("，".join(HAN[i : i + 4] for i in range(0, len(HAN), 4)), HAN),
        (f"{THAI}?", f"x {THAI}"),
        ("Is it raining today?", "is it raining today"),
        ("小明在图书馆借了三本书", "小明在图书馆借了三本书。"),
    ],
)
def test_what_is_shared_is_found(target: str, source: str) -> None:
    (leak,) = leaks(target, source)
    assert leak.source.where == "calib.txt"
    assert leak.shared


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (" ".join(SENTENCE.split()[:12]) + " or not", " ".join(SENTENCE.split()[:12]) + " at all"),
        (HAN[:19] + "吗", HAN[:19] + "呢"),
        ("小明有2个梨，又买了3个。一共有几个？", "小明有4个梨，又买了1个。一共有几个？"),
        ("9 - 5 =", "9 - 5 ="),
        ("", ""),
    ],
)
def test_what_is_like_is_no_leak(target: str, source: str) -> None:
    assert leaks(target, source) == []


def test_a_groups_instruction_is_no_leak() -> None:
    rows = [text(f"{SENTENCE}\n\nTicket {n} {n * n}", str(n)) for n in range(4)]
    assert find_leaks(rows, [text(SENTENCE)]) == []
    # But a question that is copied with its instruction is.
    assert [leak.target.where for leak in find_leaks(rows, [text(rows[2].content + " " + SENTENCE)])] == ["2"]  # fmt: skip
    # Two rows are too few to share an instruction.
    assert len(find_leaks(rows[:2], [text(SENTENCE)])) == 2


def test_one_leak_a_target_in_their_order() -> None:
    found = find_leaks([text(SENTENCE, "a"), text(HAN, "b")], [text(HAN, "1"), text(SENTENCE, "2"), text(SENTENCE, "3")])  # fmt: skip
    assert [(leak.target.where, leak.source.where) for leak in found] == [("a", "2"), ("b", "1")]


@given(st.text(), st.text())
def test_any_text_can_be_read(target: str, source: str) -> None:
    for leak in leaks(target, source):
        assert leak.shared


@given(st.lists(st.text("abcdefgh", min_size=1), min_size=13), st.text(), st.text())
def test_a_copy_is_found_wherever_it_stands(parts: list[str], before: str, after: str) -> None:
    copied = " ".join(parts)
    assert leaks(copied, f"{before} {copied} {after}")


def test_it_is_fast() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=5)) for _ in range(5000)]
    rows = [text(" ".join(rng.choices(words, k=80)), str(n)) for n in range(2000)]
    sources = [text(" ".join(rng.choices(words, k=400))) for _ in range(200)]
    started = time.process_time()
    assert find_leaks(rows, [*sources, text(f"so {rows[1999].content}")])[0].target.where == "1999"
    assert time.process_time() - started < 3
