"""Functions with a branch for each family of the sampler, whose bodies stand in the files of the families.

See `leaves.conjugate_pieces` for what they do. Numbers go in and out: a call that hands over a tuple of arrays copies
it.
"""

from pymc_spn.leaves.conjugate_pieces import BETA_PRIOR, DIRICHLET_PRIOR, NORMAL_GAMMA_PRIOR
from pymc_spn.leaves.families import CONJUGATES
from pymc_spn.leaves.kernel_forms import FACTORIAL, LOGARITHM, NOT_NEGATIVE, REAL
from pymc_spn.leaves.leaf_dispatch import by_family
from pymc_spn.numerics.kernel_options import bare_called_kernel, copied_kernel, inner_kernel, kernel


def _pieces(name):
    """A piece of every family that has it, by code."""
    return [(code, getattr(part, name)) for code, part in CONJUGATES.items() if getattr(part, name) is not None]


def _yes():
    return True


def _no():
    return False


def _which(name, holds):
    """A function of a family's code: whether that holds of the family."""
    codes = [(code, _yes) for code, part in CONJUGATES.items() if holds(part)]
    return by_family(name, "family", codes, copied_kernel, __file__, otherwise=_no)


is_located = _which("is_located", lambda part: part.prior_form == NORMAL_GAMMA_PRIOR)
is_real = _which("is_real", lambda part: part.reading == REAL)
is_of_logs = _which("is_of_logs", lambda part: part.reading == LOGARITHM)
takes_factorials = _which("takes_factorials", lambda part: part.reading == FACTORIAL)
is_not_negative = _which("is_not_negative", lambda part: part.reading == NOT_NEGATIVE)
is_of_probabilities = _which("is_of_probabilities", lambda part: part.prior_form in (BETA_PRIOR, DIRICHLET_PRIOR))
has_base = _which("has_base", lambda part: part.log_base is not None)
has_cells = _which("has_cells", lambda part: part.log_cell is not None)
has_whole_numbers = _which("has_whole_numbers", lambda part: part.log_whole_number is not None)

_BARE = (bare_called_kernel, __file__)
prior_of = by_family("prior_of", "family", _pieces("prior"), *_BARE)
posterior_of = by_family("posterior_of", "family", _pieces("posterior"), *_BARE)
add_to_sums = by_family("add_to_sums", "family", _pieces("add"), *_BARE)
predictive_of = by_family("predictive_of", "family", _pieces("predictive"), *_BARE)
log_predictive_of = by_family("log_predictive_of", "family", _pieces("log_predictive"), *_BARE)
log_density_at = by_family("log_density_of", "family", _pieces("log_density"), *_BARE)
add_log_marginal = by_family("add_log_marginal", "family", _pieces("add_log_marginal"), *_BARE)
add_slopes = by_family("add_slopes", "family", _pieces("add_slopes"), *_BARE)
expected_of = by_family("expected_of", "family", _pieces("expected"), inner_kernel, __file__)
log_base_of = by_family("log_base_of", "family", _pieces("log_base"), *_BARE)
draw_of = by_family("draw_of", "family", _pieces("draw"), *_BARE)
log_cell_of = by_family("log_cell_of", "family", _pieces("log_cell"), *_BARE)
draw_in_cell_of = by_family("draw_in_cell_of", "family", _pieces("draw_in_cell"), *_BARE)
draw_parameters_of = by_family("draw_parameters_of", "family", _pieces("draw_parameters"), *_BARE)
log_cell_given_of = by_family("log_cell_given_of", "family", _pieces("log_cell_given"), *_BARE)
draw_in_cell_given_of = by_family("draw_in_cell_given_of", "family", _pieces("draw_in_cell_given"), *_BARE)
log_whole_number_of = by_family("log_whole_number_of", "family", _pieces("log_whole_number"), *_BARE)


@kernel
def posteriors(family, n, s1, s2, prior, out):
    """Posterior parameters (L, 4) of leaves, of levels (alpha_k, total of alpha and rows)."""
    for i in range(family.size):
        p = prior[i]
        q0, q1, q2, q3 = posterior_of(family[i], n[i], s1[i], s2[i], p[0], p[1], p[2], p[3])
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = q0, q1, q2, q3
