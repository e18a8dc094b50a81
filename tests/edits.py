"""Random edits of what was saved: arrays of a DataTree and values of JSON, and whether an error is one of ours."""

import copy
import json
import linecache
import warnings
from pathlib import Path

import numpy as np
import xarray as xr

import pymc_spn

PACKAGE = str(Path(pymc_spn.__file__).parent)
WHOLE = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 100, 10**6, 2**31 - 1, 2**31, 2**63 - 1)
REAL = (np.nan, np.inf, -np.inf, 0.0, -1.0, 0.5, 1.0, 2.0, 7.0, 1e6, 1e9, 1e308, -1e308, 1e-320)
JSON = (
    *(None, True, False, "", "x", "gaussian", [], {}, [1], [[]], {"x": 1}),
    *(0, 1, -1, 2, 3, 100, 2**31, 2**63 - 1, 2**63, 2**64, 10**400, -(2**63)),
    *(0.5, -0.5, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
)


def choice(rng, things):
    return things[rng.integers(len(things))]


def edited_json(value, rng):
    """A copy of JSON values with one of them replaced, left out or repeated; and a word on it."""
    value = copy.deepcopy(value)
    places = []

    def walk(inside):
        for key in inside if isinstance(inside, dict) else range(len(inside)):
            places.append((inside, key))
            if isinstance(inside[key], dict | list):
                walk(inside[key])

    walk(value)
    inside, key = choice(rng, places)
    kind = rng.integers(8)
    if kind == 0:
        del inside[key]
    elif kind == 1 and isinstance(inside, list):
        inside.insert(key, copy.deepcopy(inside[key]))
    elif kind == 2:
        other, at = choice(rng, places)
        inside[key] = copy.deepcopy(other[at])
    else:
        inside[key] = choice(rng, JSON)
    return value, f"{key!r}, {kind}"


def edited_text(text, rng):
    return json.dumps(edited_json(json.loads(text), rng)[0])


def edited_array(variable, rng):
    """A copy of a variable with one element changed to an extreme, another dtype or another shape."""
    values, dims = variable.values.copy(), variable.dims
    kind = rng.integers(12)
    if kind == 0 and values.ndim:
        axis = int(rng.integers(values.ndim))
        values = np.take(values, range(values.shape[axis] - 1), axis)
    elif kind == 1:
        return xr.Variable((*dims, "more"), np.stack([values, values], axis=-1))
    elif kind == 2:
        values = values.astype(choice(rng, ("f8", "i8", "U5", "?", "i1"))) if values.dtype.kind in "iufb" else values
    elif kind == 3 and values.ndim > 1:
        return xr.Variable(dims[::-1], values)
    elif kind == 4 and values.ndim:
        return xr.Variable(tuple(f"{d}_" for d in dims), values)
    elif values.size:
        at = tuple(rng.integers(values.shape))
        if values.dtype.kind in "iu":
            values = values.astype(np.int64)
            values[at] = choice(rng, WHOLE)
        elif values.dtype.kind == "f":
            values[at] = choice(rng, REAL)
        elif values.dtype.kind == "b":
            values[at] = ~values[at]
        else:
            values = values.astype(object)
            values[at] = choice(rng, ("", "x", "0" * 40))
    return xr.Variable(dims, values)


def edited_tree(tree, rng):
    """A copy of a tree of data with one edit, and what was edited; None where xarray cannot hold that."""
    groups = {node.path: node.to_dataset(inherit=False) for node in tree.subtree}
    texts = [(g, a) for g, data in groups.items() for a in data.attrs]
    arrays = [(g, v) for g, data in groups.items() for v in data.variables]
    group, name = choice(rng, texts if texts and rng.random() < 0.2 else arrays)
    what = f"{group} {name}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what becomes of NaN as an integer
        try:
            return xr.DataTree.from_dict(_edited_groups(groups, group, name, (group, name) in texts, rng)), what
        except (ValueError, TypeError):
            return None, what


def _edited_groups(groups, group, name, is_text, rng):
    data = groups[group]
    if is_text:
        value, kind, attrs = data.attrs[name], rng.integers(6), dict(data.attrs)
        if kind == 0:
            del attrs[name]
        elif isinstance(value, str) and value.startswith("{") and kind > 1:
            attrs[name] = edited_text(value, rng)
        elif isinstance(value, str) and kind == 1:
            attrs[name] = value[: len(value) // 2]
        else:
            attrs[name] = choice(rng, (0, 7, -1.0, np.nan, "x", np.arange(3), np.ones(2)))
        data = data.drop_attrs(deep=False).assign_attrs(attrs)
    elif str(name).endswith("_schema") and rng.random() < 0.8:
        text = edited_text(data[name].values.astype(np.uint8).tobytes().decode(), rng)
        vector = np.frombuffer(text.encode(), np.uint8).astype(np.int16)
        data = data.drop_vars(name).assign({name: (f"{name}_bytes", vector)})
    elif rng.random() < 0.05:
        data = data.drop_vars(name)
    else:
        changed = data.drop_vars(name).assign({name: edited_array(data.variables[name], rng)})
        data = changed.set_coords(name) if name in data.coords else changed
    return groups | {group: data}


def is_ours(error):
    """Whether a ValueError or TypeError was raised by a line of the package, and not by what it calls."""
    if type(error) not in (ValueError, TypeError):
        return False
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    line = linecache.getline(place.tb_frame.f_code.co_filename, place.tb_lineno)
    return place.tb_frame.f_code.co_filename.startswith(PACKAGE) and line.strip().startswith("raise")


def outcome(read, *arguments):
    """None where reading and asking went well or was refused in our words, else the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(*arguments)
    except Exception as error:  # whatever it is: this is the question
        return None if is_ours(error) else error
    return None
