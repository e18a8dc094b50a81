"""The questions that every tractable law answers, as the methods of one class."""

from typing import ClassVar

from pymc_spn.answers.asked_law import AskedLaw
from pymc_spn.answers.cell_tails import cell_p_value
from pymc_spn.answers.column_questions import cdf, cov, mean, moment, quantile
from pymc_spn.answers.event_questions import condition, log_probability, marginal, mpe, probability, sample
from pymc_spn.answers.explanations import explain
from pymc_spn.answers.information_questions import entropy, event_information, kl, mutual_information
from pymc_spn.answers.no_interventions import do
from pymc_spn.answers.pair_questions import dependence
from pymc_spn.answers.row_distributions import predict_cdf, predict_quantile, predict_sd
from pymc_spn.answers.row_predictions import predict, predict_proba
from pymc_spn.answers.row_questions import anomaly, impute, log_density, predictive_p_value
from pymc_spn.numerics.first_guesses import led
from pymc_spn.numerics.methods_of_some import MethodOfSome


class Answers(AskedLaw):
    """Answers of a law, labelled and marked: the same methods whatever the law is.

    Conditions and events are mappings or text such as ``"20 <= age < 30 and job == 'nurse'"``. Mappings go from column
    names to a value (point evidence), ``(low, high)`` (a closed interval, None is unbounded), a list of intervals or a
    set of values. Of a sequence of mappings one holds. A condition may be a row with gaps:
    its missing values (NaN, pd.NA) say nothing.

    Parameters
    ----------
    law : Law
    """

    _refused = frozenset({"do"})
    _instead: ClassVar[dict[str, str]] = {
        "summary": "repr() says what it is; mean(), cov() and quantile() describe its columns, and a posterior from "
        "chains has diagnose()",
        "describe": "mean(), cov() and quantile() describe its columns",
        "posterior": "it answers by itself; the recorded draws are in the idata that it was read from",
        "logp": "log_density(df)",
        "logpdf": "log_density(df)",
        "pdf": "log_density(df)",
        "score_samples": "log_density(df)",
        "log_prob": "log_density(df)",
        "score": "log_density(df), a number for each row",
        "rvs": "sample(n)",
        "fit": "it is fitted; estimators with fit and predict are in ps.sklearn",
        "transform": "estimators with fit and transform are in ps.sklearn",
        "var": "cov() has variances on its diagonal",
        "std": "cov() has variances on its diagonal",
        "corr": "cov() has covariances, dependence() says which columns depend on each other",
        "hist": "functions of ps.plots draw it: plot_pairs(post)",
        "to_netcdf": "save(path)",
        "[]": "marginal('age') is the distribution of a column, condition(...) that given what is known",
        "loo": "idata['log_likelihood'] = post.log_likelihood(), then az.loo(idata)",
        "map": "mpe()",
        "mode": "mpe()",
        "plot": "functions of ps.plots draw it: plot_pairs(post), plot_dependence(post.dependence())",
        "sample_posterior_predictive": "sample(n) draws rows; of chains posterior_predictive() makes a group for ArviZ",
        "to_frame": "sample(n) draws rows as a DataFrame",
        "query": "probability(event, given=...), or predict_proba(df, target)",
        "infer": "condition(what is known) is the posterior given it",
    }

    probability = led(probability)
    log_probability = led(log_probability)
    condition = led(condition)
    marginal = led(marginal)
    sample = led(sample)
    mpe = MethodOfSome(led(mpe))

    cdf = led(cdf)
    quantile = led(quantile)
    mean = led(mean)
    cov = led(cov)
    moment = led(moment)

    predict = led(predict)
    predict_proba = led(predict_proba)
    predict_sd = led(predict_sd)
    predict_quantile = led(predict_quantile)
    predict_cdf = led(predict_cdf)

    log_density = led(log_density)
    anomaly = led(anomaly)
    impute = led(impute)
    predictive_p_value = led(predictive_p_value)
    cell_p_value = led(cell_p_value)
    explain = led(explain)

    entropy = led(entropy)
    kl = led(kl)
    mutual_information = led(mutual_information)
    event_information = led(event_information)
    dependence = led(dependence)

    do = do

    def _lacks(self, question: str) -> str:
        """Why a question has no answer; empty if it has one."""
        return self._law.no_best_row
