"""`CircuitFit`: a circuit with one estimate of its parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_spn.circuits.estimation.fit_json import fields_from_json, fit_to_json
from pymc_spn.circuits.structures.parameterised import ParameterisedCircuit
from pymc_spn.numerics.html_repr import Facts


@dataclass(frozen=True, eq=False, repr=False)
class CircuitFit(ParameterisedCircuit):
    """A circuit with the parameters that `fit_em`, or a learner of structure, found: one estimate, no posterior.

    Parameters
    ----------
    circuit : Circuit
    log_weights : (n_sum_edges,) float64
    leaf_parameters : dict of str to (n_leaves_of_family, p) float64
    log_likelihood : float
        Of all rows, in nats.
    objective : (steps + 1,) float64
        Log likelihood plus log prior, up to a constant, before each step over all rows and at the end, in nats. It
        never falls, with two exceptions. It may fall through the epochs in batches, which are between its first two
        entries. And rounding may spoil a step: that is then the last entry, and the parameters are those of the
        largest. Of `chow_liu_tree` and `prometheus` the log likelihood alone; of one `cutset_network` its score, before
        and after each division.
    converged : bool
        Whether the last step gained less than the tolerance and lost no more; False where none was taken, but at the
        end of a closed form.
    of_restarts : (restarts,) float64
        Largest objective of each restart; of the fit itself the largest of these.
    epochs : int
        Passes over the rows in batches, after the first step; 0 without them.

    Examples
    --------
    >>> fitted = ps.fit_em(law.circuit, rows, random_seed=1)
    >>> fitted.mean(given={"x": 0.0}).sel(column="y").item() < 1.0
    True
    """

    log_likelihood: float
    objective: np.ndarray
    converged: bool
    of_restarts: np.ndarray
    epochs: int = 0

    def to_json(self) -> dict[str, Any]:
        """Structure, parameters and how they were found, as values that ``json.dumps`` takes; nothing is rounded.

        Examples
        --------
        >>> fitted = ps.fit_em(law.circuit, rows, random_seed=1)
        >>> ps.circuits.CircuitFit.from_json(fitted.to_json()).converged
        True
        """
        return fit_to_json(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "CircuitFit":
        """The fit from which `to_json` made the data, equal to the bit.

        Raises
        ------
        ValueError, TypeError
            If something is missing, added or of another type; a circuit that is none; parameters that do not fit it.

        Examples
        --------
        >>> fitted = ps.fit_em(law.circuit, rows, random_seed=1)
        >>> ps.circuits.CircuitFit.from_json(fitted.to_json()).converged
        True
        """
        return cls(**fields_from_json(data))

    def _facts(self) -> Facts:
        end = "converged" if self.converged else "not converged"
        in_batches = f" and {self.epochs} epochs" if self.epochs else ""
        fit = f"log likelihood {self.log_likelihood:.1f} nats"
        steps = f"{end} after {self.objective.size - 1} steps{in_batches}, best of {self.of_restarts.size}"
        return Facts("CircuitFit", {"circuit": repr(self.circuit), "fit": fit, "steps": steps})
