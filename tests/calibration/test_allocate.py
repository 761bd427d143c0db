import pytest
from hypothesis import given
from hypothesis import strategies as st

from qpipe.calibration import allocate
from qpipe.calibration._allocate import largest_remainder

weights = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.floats(0.01, 100, allow_nan=False),
    min_size=1,
    max_size=8,
)


@given(weights, st.data())
def test_sums_to_samples_and_takes_no_more_than_there_is(weights, data):
    available = {name: data.draw(st.integers(0, 40)) for name in weights}
    samples = data.draw(st.integers(0, sum(available.values())))
    rows = allocate(samples, weights, available)
    assert list(rows) == list(weights)
    assert sum(rows.values()) == samples
    assert all(0 <= rows[name] <= available[name] for name in weights)


@given(weights, st.integers(0, 500))
def test_no_share_is_a_whole_row_off(weights, samples):
    rows = largest_remainder(samples, weights)
    assert sum(rows.values()) == samples
    for name, weight in weights.items():
        assert abs(rows[name] - samples * weight / sum(weights.values())) < 1 + 1e-9


def test_what_a_short_source_lacks_goes_to_the_others_by_weight():
    rows = allocate(12, {"a": 1, "b": 1, "c": 2}, {"a": 0, "b": 20, "c": 20})
    assert rows == {"a": 0, "b": 4, "c": 8}


def test_too_few_rows_is_an_error():
    with pytest.raises(ValueError, match="fewer than 5"):
        allocate(5, {"a": 1}, {"a": 4})
