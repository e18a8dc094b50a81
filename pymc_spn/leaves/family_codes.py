"""The numbers of the leaf families, by which kernels and arrays know them; every other module takes them from here.

A palette entry of the sampler, a leaf of a circuit and a leaf of a most probable row have the same number for the same
family. A leaf whose parameters are integrated out is a leaf of another family, see `Predictive.leaves`. Families
without a number are tabulated: NumPy works out their logs, which kernels read.
"""

NAMES = (
    "gaussian", "log_normal", "exponential", "poisson", "geometric", "bernoulli", "categorical",
    "student_t", "log_student_t", "lomax", "negative_binomial", "beta_geometric",
    "binomial", "beta_binomial", "tabulated", "rounded_gaussian", "rounded_count",
)  # fmt: skip
(
    GAUSSIAN, LOG_NORMAL, EXPONENTIAL, POISSON, GEOMETRIC, BERNOULLI, CATEGORICAL,
    STUDENT_T, LOG_STUDENT_T, LOMAX, NEGATIVE_BINOMIAL, BETA_GEOMETRIC,
    BINOMIAL, BETA_BINOMIAL, TABULATED, ROUNDED_GAUSSIAN, ROUNDED_COUNT,
) = range(len(NAMES))  # fmt: skip
IN_CIRCUITS = [
    *NAMES[:TABULATED], "scipy_continuous", "scipy_discrete", "multivariate_gaussian", "multivariate_student_t",
]  # what a circuit may hold  # fmt: skip
CODE = {name: code for code, name in enumerate(NAMES)}
ROUNDED = (
    ROUNDED_GAUSSIAN,
    ROUNDED_COUNT,
)  # Gaussian leaves of columns of whole numbers, and of counts
