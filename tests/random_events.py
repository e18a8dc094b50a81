"""Random events in columns of numbers and of levels."""

from hypothesis import strategies as st

INTERVALS = st.tuples(st.integers(0, 50), st.integers(1, 10)).map(lambda x: (x[0] / 10, (x[0] + x[1]) / 10))
OPEN = st.integers(1, 50).map(lambda x: (None, x / 10))


def events_of(numbers, levels, n_levels):
    """Lists of events in columns of numbers, which may be in several intervals, and one of levels."""
    of_number = st.one_of(INTERVALS, OPEN, st.lists(INTERVALS, min_size=1, max_size=3))
    of_number = of_number | OPEN.map(lambda x: x[::-1])
    of_level = st.sets(st.integers(0, n_levels - 1), min_size=1)
    one = st.fixed_dictionaries({}, optional={**dict.fromkeys(numbers, of_number), levels: of_level})
    return st.lists(one, min_size=1, max_size=5)
