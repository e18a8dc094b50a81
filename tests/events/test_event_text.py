"""Events as text: against evaluation row by row, the same events as mappings, closed forms, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as property_of
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

from pymc_spn.events.event_text import events_of_text
from pymc_spn.tables import Column
from tests.hand_made_records import posterior_of
from tests.shared_circuits import build

COLUMNS = (
    Column("x", "real", None, "float64"),
    Column("my col", "real", None, "float64"),
    Column("n", "count", None, "int64"),
    Column("job", "categorical", ("clerk", "nurse", "it's"), "object"),
    Column("s", "binary", (False, True), "bool"),
    Column("cyl", "categorical", (4, 6, 8), "int64"),
)
IS_DENSITY = (True, True, False, False, False, False)
FUNCTIONS = {name: getattr(np, name) for name in ("abs", "sqrt", "exp", "log", "log10", "log2")}


def read(text):
    return events_of_text("event", text, COLUMNS, IS_DENSITY)


def within(event, values):
    """Whether values satisfy what a mapping has for their column."""
    if isinstance(event, tuple):
        low, high = (default if end is None else end for end, default in zip(event, (-np.inf, np.inf), strict=True))
        return (values >= low) & (values <= high)
    return np.isin(values, list(event)) if isinstance(event, set) else values == event


def held(events, rows):
    """Number of the events that each row satisfies."""
    found = np.zeros(len(rows), int)
    for event in events:
        found += np.all(
            [np.ones(len(rows), bool), *(within(e, rows[name].values) for name, e in event.items())], axis=0
        )
    return found


def points(seed, n=200):
    """Rows that are spread over what the expressions below distinguish."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(0, 3, n), "my col": rng.exponential(2.0, n), "n": rng.integers(0, 14, n)})
    for column in COLUMNS[3:]:
        frame[column.name] = np.array(column.levels)[rng.integers(0, len(column.levels), n)]
    return frame


# ---- random text
NUMBERS = st.integers(-30, 30).filter(bool).map(lambda k: k / 8)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["({} + {})", "({} - {})", "({} * {})", "({} / {})"]), NUMBERS),
    st.tuples(st.sampled_from(["({1} - {0})", "({1} * {0})", "({1} / {0})"]), NUMBERS),
    st.tuples(
        st.sampled_from(["abs({})", "sqrt({})", "exp({})", "log({})", "log10({})", "log2({})", "(-{})"]), NUMBERS
    ),
    st.tuples(st.just("({}) ** {}"), st.sampled_from([2, 3, 4, 0.5, 1.5, -1, -2, -0.5])),
    st.tuples(st.just("{1} ** ({0})"), st.sampled_from([0.5, 2, 3, 10])),
)
POLYNOMIALS = st.lists(NUMBERS, min_size=3, max_size=3).map(
    lambda c: f"({{0}}**3 + {c[0]}*{{0}}*{{0}} - {c[1]}*{{0}} + {c[2]})"
)


@st.composite
def comparisons(draw):
    """One comparison, and the same for NumPy."""
    kind = draw(st.sampled_from(["number", "number", "number", "chain", "level", "among", "bool", "levels"]))
    negated = draw(st.booleans())
    if kind == "level":
        op, level = draw(st.sampled_from(["==", "!="])), draw(st.sampled_from(['"nurse"', "'clerk'", '"it\'s"']))
        return (f"{level} {op} job" if negated else f"job {op} {level}"), f"(job {op} {level})"
    if kind == "among":
        name, values = draw(st.sampled_from([("n", "[1, 4, 5]"), ("job", "('nurse', 'clerk')"), ("cyl", "{6}")]))
        array = values.replace("{", "[").replace("}", "]")
        return f"{name} {'not ' * negated}in {values}", f"{'~' * negated}isin({name}, {array})"
    if kind == "bool":
        return "s", "s"
    if kind == "levels":
        return "cyl**2 - 3 > 20.5", "(cyl**2 - 3 > 20.5)"
    name, value = draw(st.sampled_from([("x", "x"), ("`my col`", "my_col"), ("n", "n")]))
    inner = draw(POLYNOMIALS) if draw(st.integers(0, 3)) == 0 else "{0}"
    for step, number in draw(st.lists(STEPS, max_size=3)):
        inner = step.format(inner, number)
    ends = [draw(NUMBERS), draw(NUMBERS)] if inner != "{0}" or name != "n" else [2, 5]  # counts are no fractions
    if name != "n" or "exp" in inner or "** (" in inner:  # no end at a limit that rounding reaches
        ends = [end + 0.0137 for end in ends]
    ops = draw(st.lists(st.sampled_from(["<", "<=", ">", ">="] + ["=="] * (name == "n")), min_size=2, max_size=2))
    if kind == "chain":
        text = f"{ends[0]} {ops[0]} {inner} {ops[1]} {ends[1]}"
        array = f"(({ends[0]} {ops[0]} {inner}) & ({inner} {ops[1]} {ends[1]}))"
    elif negated:
        text, array = f"{ends[0]} {ops[0]} {inner}", f"({ends[0]} {ops[0]} {inner})"
    else:
        text, array = f"{inner} {ops[0]} {ends[0]}", f"({inner} {ops[0]} {ends[0]})"
    return text.format(name), array.format(value)


def joined(parts):
    """Parts that are joined by and, or, with words or signs."""
    return st.tuples(st.lists(parts, min_size=2, max_size=3), st.booleans(), st.booleans()).map(
        lambda x: (
            (f" {'&' if x[1] else '|'} " if x[2] else " and " if x[1] else " or ").join(f"({a})" for a, _ in x[0]),
            (" & " if x[1] else " | ").join(f"({b})" for _, b in x[0]),
        )
    )


CONDITIONS = st.recursive(
    comparisons(),
    lambda parts: joined(parts) | parts.map(lambda x: (f"not ({x[0]})", f"~({x[1]})")) | parts.map(
        lambda x: (f"~({x[0]})", f"~({x[1]})")
    ),
    max_leaves=5,
)  # fmt: skip


def evaluated(text, rows):
    names = {name.replace(" ", "_"): rows[name].values.astype(float) for name in ("x", "my col", "n", "cyl")}
    names |= {"job": rows["job"].values, "s": rows["s"].values, "isin": np.isin, **FUNCTIONS}
    with np.errstate(all="ignore"):
        return eval(text, {}, names)


@property_of(CONDITIONS, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_random_text_holds_where_numpy_says(condition, seed):
    """Rows close to an end, where rounding decides, are left out: the answer changes within a relative 1e-9."""
    text, array = condition
    rows = points(seed)
    near = [rows.assign(x=rows.x * (1 + e), **{"my col": rows["my col"] * (1 + e)}) for e in (-1e-9, 1e-9)]
    expected, *moved = (evaluated(array, r) for r in (rows, *near))
    clear = np.all([m == expected for m in moved], axis=0)
    found = held(read(text), rows)
    assert found.max() <= 1  # the events exclude each other
    np.testing.assert_array_equal(found[clear] == 1, expected[clear], err_msg=text)


CONSTANT = [
    "0*{}", "{} - {}", "({} - 1)**0", "1**{}", "abs(0*{}) + 1", "0/{}", "{}*0 - 1", "log({})**0", "1**sqrt({})",
    "log(0*{})",
]  # fmt: skip


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=="])
@pytest.mark.parametrize("expression", CONSTANT)
def test_expressions_that_do_not_vary(expression, op):
    """Against NumPy, at ends that the constant meets and at others; equality is for counts alone."""
    rows = points(5)
    rows.loc[0, "n"] = 0
    for name in ("n",) if op == "==" else ("x", "n"):
        for end in (-1, 0, 1, 2):
            text = f"{expression.replace('{}', name)} {op} {end}"
            expected = evaluated(text, rows)
            np.testing.assert_array_equal(held(read(text), rows) == 1, expected, err_msg=text)
            np.testing.assert_array_equal(held(read(f"not {text}"), rows) == 1, ~expected, err_msg=text)


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=="])
@pytest.mark.parametrize(
    "expression", ["exp(-1/n)", "1/log(n)", "0.5**(2/(n - 3))", "(1/log10(n - 4))**2", "exp(log2(n) - 5)", "1/(1/n)"]
)
def test_what_is_finite_again_after_infinity(expression, op):
    """Counts at which a part of an expression is infinite: 1/log(n) >= 0 holds at n = 0."""
    rows = points(5)
    rows.loc[:14, "n"] = np.arange(15)
    for end in (-1, 0, 1, 2):
        text = f"{expression} {op} {end}"
        expected = evaluated(text, rows)
        np.testing.assert_array_equal(held(read(text), rows) == 1, expected, err_msg=text)
        np.testing.assert_array_equal(held(read(f"not {text}"), rows) == 1, ~expected, err_msg=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x < 3", [{"x": (None, np.nextafter(3, 0))}]),
        ("x >= 3", [{"x": (3.0, None)}]),
        ("2*3 == x", [{"x": 6.0}]),
        ("x == -1.5 and job == 'nurse'", [{"x": -1.5, "job": "nurse"}]),
        ("x != 3", [{}]),
        ("not x == 3", [{}]),
        ("not x != 3", [{"x": 3.0}]),
        ("x**2 != 4", [{}]),
        ("n < 3", [{"n": (None, 2.0)}]),
        ("n > 2.5", [{"n": (3.0, None)}]),
        ("n == 3", [{"n": 3.0}]),
        ("n in [1, 3]", [{"n": {1.0, 3.0}}]),
        ("n >= 0", [{}]),
        ("n**3 <= 125", [{"n": (None, 5.0)}]),
        ("n*n - 10*n + 25 > 0", [{"n": (None, 4.0)}, {"n": (6.0, None)}]),
        ("log10(n) == 2", [{"n": (100.0, 100.0)}]),
        ("log(n) < 1", [{"n": (None, 2.0)}]),  # log(0) is -inf
        ("1/n > 0.25", [{"n": (None, 3.0)}]),  # 1/0 is inf
        ("log(x) < 0", [{"x": (0.0, np.nextafter(1, 0))}]),
        ("not log(x) < 0", [{"x": (None, np.nextafter(0, -1))}, {"x": (1.0, None)}]),
        ("x**2 < 0", []),
        ("x > 2 and x < 1", []),
        ("x < 1 or x >= 1", [{}]),
        ("x < 1 or x > 1", [{}]),  # but for a point
        ("(x - 1)*(x - 1) > 0", [{}]),
        ("job == 'nurse' or job == 'clerk'", [{"job": {"nurse", "clerk"}}]),
        ("job != 'nurse'", [{"job": {"clerk", "it's"}}]),
        ("job in []", []),
        ("s", [{"s": {True}}]),
        ("~s", [{"s": {False}}]),
        ("s == False", [{"s": False}]),
        ("cyl >= 6", [{"cyl": {6, 8}}]),
        ("  `my col` <= 1e3\n and x > 0.5", [{"my col": (None, 1000.0), "x": (np.nextafter(0.5, 1), None)}]),
    ],
)
def test_mappings_that_say_the_same(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    ("expression", "op", "end", "expected"),
    [
        ("x**2", "<", 4.0, [(-2, 2)]),
        ("abs(x - 1)", ">", 2.0, [(None, -1), (3, None)]),
        ("x**2 - 3*x + 2", "<", 0.0, [(1, 2)]),
        ("x**4 - 5*x**2 + 4", ">=", 0.0, [(None, -2), (-1, 1), (2, None)]),
        ("x*(x - 1)*(x - 2)", ">", 0.0, [(0, 1), (2, None)]),
        ("exp(-x**2 / 2)", ">", 0.5, [(-np.sqrt(2 * np.log(2)), np.sqrt(2 * np.log(2)))]),
        ("log(x + 3)", "<=", 1.0, [(-3, np.e - 3)]),
        ("1 / x", "<", -0.5, [(-2, 0)]),
        ("1 / (x - 1)", "<=", 2.0, [(None, 1), (1.5, None)]),
        ("sqrt(x)", "<", 1.5, [(0, 2.25)]),
        ("x ** -2", ">", 4.0, [(-0.5, 0.5)]),
        ("(-x) ** 1.5", ">", 8.0, [(None, -4)]),
        ("0.5 ** x", "<", 4.0, [(-2, None)]),
        ("log2(abs(x))", "<", 1.0, [(-2, 2)]),
        ("2 - x**3", ">", 10.0, [(None, -2)]),
    ],
)
def test_transforms_of_a_normal_column(expression, op, end, expected):
    """Probabilities under one Gaussian leaf, by the ends in closed form."""
    circuit = build([("leaf", 0, "gaussian")], ("x",), ("gaussian",))
    law = stats.norm(0.4, 1.7)
    probability = sum(law.cdf(np.inf if b is None else b) - law.cdf(-np.inf if a is None else a) for a, b in expected)
    held = circuit.with_parameters(np.zeros(0), {"gaussian": [[0.4, 1.7]]})
    found = float(held.probability(f"{expression} {op} {end}"))
    assert found == pytest.approx(probability, rel=1e-12)
    negation = float(held.probability(f"not {expression} {op} {end}"))
    assert found + negation == pytest.approx(1.0, abs=1e-12)


# ---- under posteriors and circuits
SAME = [
    ("x0 > 0.5", {"x0": (0.5, None)}),
    ("x0**2 <= 4 and x1 == 1", {"x0": (-2, 2), "x1": 1}),
    ("0.2 < x0 < 1 or x2 > 3", [{"x0": (0.2, 1)}, {"x2": (4, None)}]),
    ("not (x1 == 0 and 2 <= x2 < 5)", [{"x1": 1}, {"x2": (None, 1)}, {"x2": (5, None)}]),
    ("x0 == 0.5 and x1 == 1", {"x0": 0.5, "x1": 1}),
]


@pytest.mark.parametrize(("text", "mapping"), SAME)
def test_probabilities_are_those_of_mappings(text, mapping):
    post = posterior_of("missing")
    given = {"x2": (1, 6)}
    assert float(post.probability(text)) == pytest.approx(float(post.probability(mapping)), rel=1e-10)
    assert float(post.probability(text, "1 <= x2 <= 6")) == pytest.approx(
        float(post.probability(mapping, given)), rel=1e-10
    )
    turned = float(post.probability({"x1": 1}, mapping if isinstance(mapping, dict) else mapping[::-1]))
    assert float(post.probability("x1 == 1", text)) == pytest.approx(turned, rel=1e-10)


# ---- what is refused
HALVED = "abs(" * 30 + "x" + "".join(f"-{2**-k})" for k in range(30))
MANY = " or ".join(f"{2 * k} < x < {2 * k + 1}" for k in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x >", "event: 'x >' cannot be read: invalid syntax"),
        ("x > 1; n", "invalid syntax at position 5"),
        ("", "event: '' cannot be read"),
        ("`my col > 3", "cannot be read"),
        ("y > 3", r"there is no column 'y', the columns are \['x', 'my col', .*'y' at position 0 of 'y > 3'"),
        ("`no such` > 3", "there is no column 'no such'"),
        ("x < n", r"columns \['n', 'x'\] are compared with each other: an event restricts single columns"),
        ("1 < 2", "no column is compared: an event restricts"),
        ("x", "conditions joined by and, or, not, as in 'x < 1'; questions about one column are asked of marginal.'x'"),
        ("x > 1 and 3", "a condition is a comparison.*'3' at position 10"),
        ("x > 1 & n < 3", "& and | bind before comparisons"),
        ("x is 3", "comparisons are < <= > >= == != in and not in"),
        ("sin(x) > 0.5", "sin is within bounds on infinitely many intervals"),
        ("floor(x) > 1", "functions are abs, sqrt, exp, log, log10, log2, of one expression"),
        ("log(x, 2) > 1", "functions are abs"),
        ("x.a > 1", "expressions are numbers, one column"),
        ("x > 'a'", "expressions are numbers, one column.*\"'a'\" at position 4"),
        ("x % 2 > 1", "expressions are numbers"),
        ("x > True", "expressions are numbers"),
        ("x*exp(x) < 3", "column 'x' occurs more than once, .* is not a polynomial of degree 20 or less"),
        ("x**30 + x < 3", "column 'x' occurs more than once"),
        ("x/0 > 1", "an expression is divided by zero"),
        ("(-2)**x > 1", "the base of a power must be positive"),
        ("x + 1e999 > 1", "the constant is inf"),
        ("x > 1e999 - 1e999", "the constant is not a number"),
        ("x + " + "9" * 400 + " > 1", "the number is too large"),
        ("1e200*x*x - 1e200*1e200*x > 0", "coefficients that are not finite"),
        ("x**2 == 4", "column 'x' is continuous, and a point of an expression in it has no density here"),
        ("x in [1, 2]", "column 'x' is continuous, a set of values has probability zero"),
        ("x == 3 or n > 2", "event: in a union of events, column 'x' cannot be at a point, 3"),
        ("n + 1 in [1, 2]", "in is for a column by itself and a list of values"),
        ("n in 3", "in is for a column by itself and a list of values"),
        ("job < 'm'", "levels of column 'job' are compared by == != in and not in"),
        ("job == 'cook'", r"event: column 'job' cannot be 'cook'; the levels are \['clerk', 'nurse'"),
        ("job in ['nurse', 3]", "event: column 'job' cannot be 3"),
        ("n == 2.5", "event: column 'n' cannot be 2.5; it is count"),
        ("(" * 300 + "x > 1" + ")" * 300, "too many nested parentheses"),
        (f"({MANY}) and ({MANY.replace('x', '`my col`')})", "event: the text makes more than 1000 parts"),
        (HALVED + " < 1e-9", "event: this is to be within more than 1000 intervals; ask for less at once: 'abs"),
        ("x > 1 or " * 2_500 + "x > 1", "event: the text has 22,505 characters, at most 20,000 are read"),
        ("x<1 or " * 2_500 + "x<1", "event: the text has 2,501 comparisons and values of lists, at most 2,000 are"),
        ("n in [" + "1," * 2_500 + "1]", "event: the text has 2,501 comparisons and values of lists"),
        ("-" * 10_000 + "x > 1", "nested too deeply|cannot be read"),
        ("x > " + "9" * 9_000, "cannot be read"),
        ("`" + "y" * 9_000 + "` > 3", "there is no column 'yyyy"),
        ("job == '" + "\\'" * 2_000, "cannot be read"),
        ("x*0 + x*(x*0)**900000000 > 1", "column 'x' occurs more than once"),
    ],
)  # fmt: skip
def test_text_that_is_refused(text, message):
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        read(text)
    assert len(str(refused.value)) < 800


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("not " * 4_000 + "x > 1", "x > 1"),
        ("x > " + "1+" * 9_000 + "1", "x > 9001"),
        ("(x > 1) & " * 1_500 + "(x > 1)", "x > 1"),
    ],
)  # fmt: skip
def test_deep_text_is_read_or_refused(text, same):
    try:
        assert read(text) == read(same)
    except ValueError as error:
        assert "nested too deeply" in str(error) or "cannot be read" in str(error)


def nested(form, text, depth):
    for _ in range(depth):
        text = form.format(text)
    return text


@pytest.mark.parametrize("column", ["x", "n"])
@pytest.mark.parametrize("form", ["abs({})", "abs({} - 1)", "sqrt({}**2)", "-({})", "1 / ({} - 1)", "abs(1 / {})"])
def test_nested_functions_are_solved_step_by_step(form, column):
    """Undoing abs doubles the intervals, and these overlap: joined, they stay few."""
    text = nested(form, column, 24)
    for rest in ("<= 0.5", "> 2", "> 0"):
        assert len(read(f"{text} {rest}")) <= 25
        rows = points(3)
        np.testing.assert_array_equal(held(read(f"{text} {rest}"), rows), evaluated(f"{text} {rest}", rows))


def test_conditions_that_are_refused():
    post = posterior_of("missing")
    with pytest.raises(ValueError, match="given: 'x0 > 1 and x0 < 0' holds for no values"):
        post.mean("x0 > 1 and x0 < 0")
    union = post.mean("x1 == 1 or x2 > 3")
    np.testing.assert_allclose(union, post.mean([{"x1": 1}, {"x1": {0}, "x2": (4, None)}]), rtol=1e-10)
    with pytest.raises(TypeError, match="a list holds events, each a mapping of column names, number 0 is 'x1 == 1'"):
        post.probability(["x1 == 1"])


def test_conditions_as_pandas_has_them():
    columns = [
        Column("o", "categorical", ("low", "mid", "high"), "category[str] ordered"),
        Column("a\nb", "real", None, "float64"),
        Column("c`d", "real", None, "float64"),
    ]
    texts = {
        "o >= 'mid'": {"o": {"mid", "high"}},
        "'mid' < o": {"o": {"high"}},
        "not 'mid' <= o": {"o": {"low"}},
        "`a\nb` >= 0": {"a\nb": (0.0, None)},
        "`c``d` <= 1": {"c`d": (None, 1.0)},
    }
    for text, mapping in texts.items():
        assert events_of_text("event", text, columns, [False, True, True]) == [mapping]
    post = posterior_of("missing")
    pairs = [
        ({"x2": [1, 2]}, {"x2": {1, 2}}),
        ({"x2": np.array([1, 2])}, {"x2": {1, 2}}),
        ({"x2": pd.Interval(1, 3)}, {"x2": {2, 3}}),
        ({"x0": slice(1, None)}, {"x0": (1, None)}),
        ({"x0": [pd.Interval(-1, 0), slice(1, 2)]}, {"x0": [(-1, 0), (1, 2)]}),
        ([{"x2": [1]}, {"x0": slice(0, 1)}], [{"x2": {1}}, {"x0": (0, 1)}]),
        (pd.Series({"x1": 1}), {"x1": 1}),
        ({"x1": pd.Series([1, 1]).astype("category").unique()}, {"x1": {1}}),
    ]
    for ours, same in pairs:
        assert float(post.probability(ours)) == pytest.approx(float(post.probability(same)), rel=1e-12)
        found, expected = (float(post.probability({"x0": (0, 1)}, given=g)) for g in (ours, same))
        assert found == pytest.approx(expected, rel=1e-12)  # next to an open end a few bits
    assert post.probability({"x0": 1.0}).attrs["quantity"] == "density, not probability: per unit of 'x0'"
    assert "quantity" not in post.probability({"x2": 1, "x0": (0, 1)}).attrs


def test_above_zero_is_no_closer_to_a_spike_than_from_zero_on():
    """Log-normal densities grow towards 0, from which text keeps the smallest floating-point number away."""
    post = posterior_of("skewed").marginal(["x0"])
    found, expected = (post.mpe(given, max_draws=2) for given in ("x0 > 0", {"x0": (0, None)}))
    assert float(found.log_density) == pytest.approx(float(expected.log_density), abs=1e-9)
