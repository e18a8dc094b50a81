"""Warnings that answers can be far from those of the posterior."""


class CoverageWarning(UserWarning):
    """The support of a posterior over graphs holds less than half of it."""


class ConvergenceWarning(UserWarning):
    """The chains of a posterior have not met: R-hat of their log joint is above 1.1, or its effective size below 50."""
