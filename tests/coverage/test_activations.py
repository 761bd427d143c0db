from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qpipe.coverage._activations import ROW, cut


class FakeTokenizer:
    def __init__(self, prefix: list[int]) -> None:
        self.prefix = prefix

    def join(self, texts: list[list[int]]) -> tuple[list[int], list[int]]:
        return [token for text in texts for token in text], []


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=300), max_size=6),
    st.sampled_from([[], [0]]),
    st.integers(0, 1200),
)
def test_rows_are_the_text_in_order_behind_bos(
    texts: list[list[int]], prefix: list[int], tokens: int
) -> None:
    tokenizer: Any = FakeTokenizer(prefix)
    rows = cut(texts, tokenizer, tokens)
    stream = [token for text in texts for token in text][:tokens]
    assert all(ROW // 8 <= len(row) <= ROW and row[: len(prefix)] == prefix for row in rows)
    kept = [token for row in rows for token in row[len(prefix) :]]
    assert kept == stream[: len(kept)]
    assert len(stream) - len(kept) < ROW // 8
