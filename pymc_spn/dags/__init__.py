"""Posteriors over directed acyclic graphs: local scores, prefix lattices, order posteriors, causal effects."""

from typing import TYPE_CHECKING

from pymc_spn.numerics.lazy_names import lazy_names

if TYPE_CHECKING:
    from pymc_spn.dags.imputed_posterior import ImputedDagPosterior as ImputedDagPosterior
    from pymc_spn.dags.log_evidence import dag_log_evidence as dag_log_evidence
    from pymc_spn.dags.structure_prior import EdgeLogOdds as EdgeLogOdds
    from pymc_spn.dags.structure_prior import EdgePenalty as EdgePenalty

_PUBLIC = {
    "EdgeLogOdds": "dags.structure_prior",
    "EdgePenalty": "dags.structure_prior",
    "ImputedDagPosterior": "dags.imputed_posterior",
    "dag_log_evidence": "dags.log_evidence",
}

__all__ = [*_PUBLIC]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
