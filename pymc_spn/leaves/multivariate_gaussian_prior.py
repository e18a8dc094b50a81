"""Multivariate leaves as a model asks for them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MultivariateGaussian:
    """Multivariate normal leaves with a normal-inverse-Wishart prior.

    The prior is on their means and covariances.

    Parameters
    ----------
    columns : sequence of str, optional
        Which columns may be in them. By default all of real and positive numbers that have Gaussian leaves, except
        columns with a value that very many rows share, such as the zeros of a rare quantity.

    Examples
    --------
    >>> fit = ps.fit_variational(df, joint_leaves=ps.leaves.MultivariateGaussian(["age", "income"]))

    References
    ----------
    Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, section 9.

    """

    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.columns is None:
            return
        if isinstance(self.columns, str) or not all(isinstance(name, str) for name in self.columns):
            raise TypeError(f"columns must be a list of names of columns; got {self.columns!r}")
        object.__setattr__(self, "columns", tuple(self.columns))
