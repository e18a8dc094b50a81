"""Words of ``attrs["exactness"]``: how exact an answer is, and given what."""

GIVEN_DRAWS = " given the draws"  # an average over the draws of chains or over weighted trees
GIVEN_FIT = " given the fit"  # an answer from the one state of a variational fit
GIVEN_TABLES = " given the imputed tables"  # an average over imputed tables
ON_SUPPORT = " on the support"  # of a posterior that is known on a part of its space alone
SIMULATION = "exact simulation"  # of rows that are drawn
LOCAL_MAXIMUM = "local maximum"  # a row from which no ascent leads on
LARGEST_LOG_ERROR = 0.5
_SCOPES = GIVEN_DRAWS, GIVEN_FIT, GIVEN_TABLES, ON_SUPPORT
_WITHOUT_SCOPE = {"one draw"}  # it is no statement about a posterior


def limited(mark: str, scope: str) -> str:
    """The mark of an answer that holds within a scope alone; a mark that has it is left as it is."""
    return mark if mark in _WITHOUT_SCOPE or mark.endswith(scope) else mark + scope


def scope_of(mark: str) -> str:
    """The scope that a mark names, empty if there is none."""
    return next((scope for scope in _SCOPES if mark.endswith(scope)), "")


def error_of_log(relative: float, rests_on: str) -> dict[str, object]:
    """Attribute ``mcse`` of the log of a mean of positive terms; NaN, and why, if their spread does not say it.

    The relative standard error of a mean of K independent positive terms, by their own spread, is at most 1, whatever
    they are. It is 1 if one term outweighs all others. Near that bound it depends on K alone, and what a larger term
    would change is not in it. Above one half (fewer than four terms that count, for any K) no error is given.

    Parameters
    ----------
    relative : float
        Relative standard error of the mean, which is the error of its log to first order.
    rests_on : str
        What the note says of the terms: "1.0 of 8 islands".
    """
    if not relative > LARGEST_LOG_ERROR:
        return {"mcse": float(relative)}
    note = (
        f"no standard error: the estimate rests on {rests_on}, so their spread does not say how far it is off; it is "
        "likely to be too low"
    )
    return {"mcse": float("nan"), "mcse_note": note}
