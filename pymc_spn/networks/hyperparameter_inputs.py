"""Hyperparameters of a network as a model is given them: priors of those that are learned, variables, numbers."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval
from pytensor.graph.basic import Variable
from pytensor.tensor.random.op import RandomVariable

from pymc_spn.gibbs.hyperparameters import GAMMA, LOG_NORMAL, LOG_NORMAL_ABOVE_ONE
from pymc_spn.networks.schema import DIMS, UNUSED
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.column import by_name
from pymc_spn.tables.dimensions import own_dimension

# Gamma by shape and rate, LogNormal by mean and sd of the log. Of the leaf shape the excess over 1 is log-normal: a
# leaf predictive has twice the shape in degrees of freedom, so every draw has a covariance; and so has the average over
# draws, since 1 / (shape - 1) has a mean.
PRIORS = {
    "concentration": (GAMMA, 2.0, 1.0),
    "leaf_scale": (LOG_NORMAL, float(np.log(0.3)), 1.0),
    "leaf_shape": (LOG_NORMAL_ABOVE_ONE, float(np.log(UNUSED["leaf_shape"] - 1.0)), 1.0),
    "precision_ratio": (LOG_NORMAL, float(np.log(UNUSED["precision_ratio"])), 1.0),
    "covariance_scale": (LOG_NORMAL, float(np.log(UNUSED["covariance_scale"])), 2.0),
}


def vector_of_hyperparameter(name, group, value, schema, model):
    """Vector for the log density, and where its values are found: fixed numbers or a variable."""
    size = 2 if group == "concentration" else len(schema.columns)
    if value is None:
        if not schema.places_of(group).size:
            fixed = np.full(size, UNUSED[group])
            return pt.constant(fixed), {"fixed": fixed.tolist()}
        family, a, b = PRIORS[group]
        full = f"{name}_{group}"
        make = {GAMMA: pm.Gamma, LOG_NORMAL: pm.LogNormal, LOG_NORMAL_ABOVE_ONE: _log_normal_above_one}[family]
        rv = make(full, a, b, dims=f"{name}_{DIMS[group]}")
        rv.tag.spn_owner = name
        return _spread(rv, group, schema), {"variable": full}
    if isinstance(value, Variable):
        return _variable(name, group, value, schema, size, model)
    fixed = numbers_of_hyperparameter(group, value, schema, size)
    return pt.constant(fixed), {"fixed": fixed.tolist()}


def _log_normal_above_one(name, mu, sigma, dims):
    """A variable above 1, whose excess over 1 is log-normal."""
    return pm.CustomDist(
        name,
        mu,
        sigma,
        dist=_one_and_log_normal,
        support_point=_middle_above_one,
        default_transform=Interval(1.0, None),
        class_name="LogNormalAboveOne",
        dims=dims,
    )


def _one_and_log_normal(mu, sigma, size):
    return 1.0 + pm.LogNormal.dist(mu, sigma, size=size)


def _middle_above_one(rv, size, mu, sigma):
    return pt.full(size, 1.0 + pt.exp(mu))


def _spread(variable, group, schema):
    """A variable over some columns, put in its place among all columns."""
    if group in UNUSED and len(schema.places_of(group)) != len(schema.columns):
        others = pt.constant(np.full(len(schema.columns), UNUSED[group]))  # a bare 1.5 would become float32
        return pt.set_subtensor(others[schema.places_of(group)], variable)
    return variable


def _variable(name, group, value, schema, size, model):
    owner = value.owner
    is_dist = owner is not None and isinstance(owner.op, RandomVariable) and value not in model.basic_RVs
    if is_dist and value not in model.deterministics:
        dims = None
        if value.type.ndim == 1:
            dimension, labels = schema.labels_of(group, int(value.shape.eval()[0]))
            dims = (own_dimension(model, f"{name}_{dimension}", labels),) if labels else None
        value = model.register_rv(value, f"{name}_{group}", dims=dims)
    if value not in model.basic_RVs and value not in model.deterministics:
        raise ValueError(
            f"{group} must be a number or a named variable of the model, so that its draws are kept; "
            f'wrap the expression: pm.Deterministic("{name}_{group}", ...)'
        )
    if value.type.ndim == 0:
        return pt.alloc(value, size), {"variable": value.name}
    if value.type.ndim != 1:
        raise ValueError(f"{group} must be a scalar or a vector; {value.name!r} has {value.type.ndim} dimensions")
    allowed = {size, len(schema.places_of(group))} if group in UNUSED else {size}
    length = int(value.shape.eval()[0])
    if length not in allowed:
        raise ValueError(
            f"{group} must have length {' or '.join(map(str, sorted(allowed)))}; {value.name!r} has {length}"
        )
    return (value if length == size else _spread(value, group, schema)), {"variable": value.name}


def numbers_of_hyperparameter(group, value, schema, size):
    """Fixed hyperparameters as a full vector of positive numbers."""
    names = [c.name for c in schema.columns]
    if isinstance(value, dict):
        value = by_name(group, value)
        if group == "concentration":
            keys, fixed = ["inner", "univariate"], np.ones(2)
        else:
            keys = [names[d] for d in schema.places_of(group)] if group in UNUSED else names
            fixed = np.full(size, UNUSED.get(group, 1.0))
        unknown = [k for k in value if k not in keys]
        lacking = [k for k in keys if k not in value]
        if unknown or lacking:
            raise ValueError(f"{group} must name exactly {keys}; unknown {quoted(unknown)}, missing {quoted(lacking)}")
        places = keys if group == "concentration" else names
        for key, number in value.items():
            fixed[places.index(key)] = _as_numbers(f"{group}[{key!r}]", number)
    else:
        fixed = _as_numbers(group, value)
        if fixed.ndim > 1 or (fixed.ndim == 1 and fixed.size != size):
            raise ValueError(f"{group} must be one number or {size}; got shape {fixed.shape}")
        fixed = np.array(np.broadcast_to(fixed, size))
    if not (np.isfinite(fixed) & (fixed > 0)).all():
        bad = int(np.argmax(~(np.isfinite(fixed) & (fixed > 0))))
        place = ["inner", "univariate"][bad] if group == "concentration" else names[bad]
        raise ValueError(f"{group} must be positive and finite; it is {fixed[bad]} at {place!r}")
    return fixed


def _as_numbers(argument, value):
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{argument} must hold numbers or be a PyMC variable; got {quoted(value)}") from None
