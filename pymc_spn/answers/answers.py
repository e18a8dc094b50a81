"""The questions that every tractable law answers, as the methods of one class."""

from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.answers.cell_tails import cell_p_value
from pymc_spn.answers.column_questions import cdf, corr, cov, mean, median, moment, quantile, std
from pymc_spn.answers.event_questions import condition, log_probability, marginal, mpe, probability, sample
from pymc_spn.answers.explanations import explain
from pymc_spn.answers.information_questions import entropy, event_information, kl, mutual_information
from pymc_spn.answers.pair_questions import dependence
from pymc_spn.answers.row_distributions import predict_cdf, predict_interval, predict_quantile, predict_sd
from pymc_spn.answers.row_predictions import predict, predict_proba
from pymc_spn.answers.row_questions import anomaly, impute, log_density, predictive_p_value


class Answers(AskedLaw):
    """Answers of a law, labelled and marked: the same methods whatever the law is.

    Conditions and events are mappings or text such as ``"20 <= age < 30 and job == 'nurse'"``. Mappings go from column
    names to a value (point evidence), ``(low, high)`` (a closed interval, None is unbounded), a list of intervals or a
    set of values; lists of values, `pandas.Interval` and slices are read as these. Of a sequence of mappings one holds.
    A condition may be a row with gaps: its missing values (NaN, pd.NA) say nothing.

    Parameters
    ----------
    law : Law
    """

    probability = probability
    log_probability = log_probability
    condition = condition
    marginal = marginal
    sample = sample
    mpe = mpe

    cdf = cdf
    quantile = quantile
    median = median
    mean = mean
    std = std
    cov = cov
    corr = corr
    moment = moment

    predict = predict
    predict_proba = predict_proba
    predict_sd = predict_sd
    predict_quantile = predict_quantile
    predict_interval = predict_interval
    predict_cdf = predict_cdf

    log_density = log_density
    anomaly = anomaly
    impute = impute
    predictive_p_value = predictive_p_value
    cell_p_value = cell_p_value
    explain = explain

    entropy = entropy
    kl = kl
    mutual_information = mutual_information
    event_information = event_information
    dependence = dependence
