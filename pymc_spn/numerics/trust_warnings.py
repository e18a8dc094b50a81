"""Warnings that answers can be far from those of the posterior."""

import os
from pathlib import Path

OWN_FILES = (str(Path(__file__).parents[1]) + os.sep,)  # which a warning passes over, so that it names the user's line


class CoverageWarning(UserWarning):
    """A posterior over graphs leaves out much of what is probable.

    Its support holds less than half of the posterior, or candidate parents lack a probable one.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", ps.CoverageWarning)  # an error instead of a warning
    """


class ConvergenceWarning(UserWarning):
    """The chains of a posterior have not converged: R-hat is above 1.1, or the effective size below 50.

    Of networks that of the log density of rows, else that of the log joint.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", ps.ConvergenceWarning)  # an error instead of a warning
    """
