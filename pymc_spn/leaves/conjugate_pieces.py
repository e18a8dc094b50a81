"""What the samplers and the variational fit ask of a family with a conjugate prior.

A leaf keeps how many values it has, n, and two sums over them, s1 and s2. A prior or posterior has up to four
parameters, p0 .. p3. Values are coded, as the sampler sees them: ``y + offset`` is the value itself, in the unit of the
column. Families of logs are functions of u = log(y + offset) instead of y; the kernels take the log and the Jacobian.
"""

from typing import Any, NamedTuple

# priors: of mean and precision, of a rate, of a probability, of the probabilities of levels
NORMAL_GAMMA_PRIOR, GAMMA_PRIOR, BETA_PRIOR, DIRICHLET_PRIOR = range(4)


class Conjugate(NamedTuple):
    """Pieces of compiled functions, as `family_pieces.Kernels`: their bodies become branches.

    Of its predictive a leaf keeps five numbers: ``log_scale``, ``power``, ``centre``, ``curvature`` and ``slope``.
    Leaves on levels count levels: they have no more than a prior and a posterior.

    Parameters
    ----------
    reading : int
        Of `kernel_forms`: which values there are, and what of them is worked out once for all leaves, log or log x!.
    prior_form : int
        NORMAL_GAMMA_PRIOR, of which leaves have a shape, a precision ratio and a table of half steps, GAMMA_PRIOR,
        BETA_PRIOR or DIRICHLET_PRIOR.
    prior : function (mean, variance, floor, scale, n_levels, leaf_shape, precision_ratio)
        Its parameters from `PaletteEntry.coded_constants`, the scale of the leaf and hyperparameters.
    posterior : function (n, s1, s2, p0, p1, p2, p3)
        Parameters after the data.
    is_vector : bool
        Whether the log predictive is ``log_scale - power log1p((u - centre)^2 curvature + (y + offset) slope)``: then
        kernels work it out for all leaves of a row in one vectorised loop.
    add : function (s1, s2, sign, u, offset, cell, trials)
        The sums with a value put in (sign 1) or taken out (sign -1). The cell is the variance within a whole number's
        cell, trials are the third parameter of the prior.
    predictive : function (p0, p1, p2, p3, half_step, cell)
        The five numbers; ``half_step`` is lgamma(p2 + 1/2) - lgamma(p2).
    log_predictive : function (u, offset, log_scale, power, centre, curvature, slope, trials)
        Where values are read as they are, offset, slope and trials are 0.
    log_density : function (u, offset, p0, p1, p2, p3, half_step, cell)
        The log predictive without the five numbers.
    add_log_marginal : function (log_p, n, s1, s2, p0, p1, p2, p3, first, second)
        log_p with the log marginal likelihood of a leaf added. The last two are what leaves of an entry share. These
        are lgamma of the shape or of the first parameter, and lgamma (of a beta prior) or log of the other one.
    add_slopes : function (out, n, s1, s2, p0, p1, p2, p3, first, second, constants, leaf_scale, second_log)
        Adds to ``out`` its derivatives in (leaf_scale, leaf_shape, precision_ratio). The last two of what is shared are
        digammas here, ``second_log`` is the log or lgamma.
    expected : function (p0, p1, p2, p3, cell)
        (c, m, v, w) of the expected log density, ``c - v (u - m)^2 - w (y + offset)`` plus the log base measure, less
        the log or log x!. Only normal-gamma priors have v.
    log_base : function (x, centre), optional
        Log base measure of a value; the centre is m above. Without it 0.
    draw : function (rng, p0, p1, p2, p3, offset)
        One coded value of the predictive, or its log.
    finish : callable (rng, drawn), optional
        Values from what `draw` gave: what Numba cannot draw, NumPy does.
    log_cell : function (low, high, offset, log_scale, power, centre, curvature, slope), optional
        Log predictive mass of a cell, of densities; may be below `IMPOSSIBLE`.
    draw_in_cell : function (rng, low, high, offset, power, centre, curvature, slope), optional
        A coded value within a cell, of densities.
    draw_parameters : function (rng, p0, p1, p2, p3), optional
        Two parameters, of densities: mean and root of the precision, or a rate and 0.
    log_cell_given, draw_in_cell_given : function (low, high, offset, first, second) and (rng, low, ...), optional
        `log_cell` and `draw_in_cell` with these parameters in place of the predictive.
    log_whole_number : function (u, is_first, log_scale, power, centre, curvature), optional
        Log predictive mass of the unit cell round a whole number, of the first one with all that is below it.
    """

    reading: int
    prior_form: int
    prior: Any
    posterior: Any
    is_vector: bool = False
    add: Any = None
    predictive: Any = None
    log_predictive: Any = None
    log_density: Any = None
    add_log_marginal: Any = None
    add_slopes: Any = None
    expected: Any = None
    log_base: Any = None
    draw: Any = None
    finish: Any = None
    log_cell: Any = None
    draw_in_cell: Any = None
    draw_parameters: Any = None
    log_cell_given: Any = None
    draw_in_cell_given: Any = None
    log_whole_number: Any = None
