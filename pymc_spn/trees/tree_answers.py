"""What a posterior over trees says of the drawn trees themselves, and how far they agree."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pymc_spn.numerics.chain_mixing import Mixing, Questions
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.numerics.quoted_values import quoted
from pymc_spn.tables.frame_kinds import labelled_frame_of_kind
from pymc_spn.tables.inputs import Seed, TableLike
from pymc_spn.trees import agreement
from pymc_spn.trees.agreement import SHOWN_ROWS
from pymc_spn.trees.features import TREE_BYTES, check_at_least
from pymc_spn.trees.leaf_summaries import leaf_frame, tree_rules
from pymc_spn.trees.tree import Tree

if TYPE_CHECKING:
    import xarray as xr


class TreeAnswers:
    """Queries of `TreePosterior` about its trees."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def sample_trees(self, n: int, random_seed: int | np.random.Generator | None = None) -> list[Tree]:
        """Trees drawn by their weights, with replacement.

        Parameters
        ----------
        n : int
            At least 0.
        random_seed : int or Generator, optional

        Returns
        -------
        list of Tree

        Raises
        ------
        ValueError
            If `n` is not an integer of at least 0.

        Examples
        --------
        >>> len(trees.sample_trees(3, random_seed=1))
        3
        """
        check_at_least("n", n, 0, TREE_BYTES)
        rng = np.random.default_rng(random_seed)
        return [self._draws.tree(t) for t in rng.choice(self._draws.n_trees, n, p=self._weights)]

    def most_probable(self) -> int:
        """Number of the drawn tree with the largest log joint density.

        Examples
        --------
        >>> trees.rules(trees.most_probable()).splitlines()[0]
        'all rows [79]'
        """
        return int(np.argmax(self._draws.log_joint))

    def tree(self, number: int) -> Tree:
        """One of the drawn trees.

        Parameters
        ----------
        number : int
            From 0, in the order of `weights`.

        Returns
        -------
        Tree

        Raises
        ------
        ValueError
            If there is no such number.

        Examples
        --------
        >>> trees.tree(0).decisions.shape[1]
        4
        """
        is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not is_whole or not 0 <= number < self._draws.n_trees:
            raise ValueError(f"number must be an integer in 0..{self._draws.n_trees - 1}, got {quoted(number)}")
        return self._draws.tree(number)

    def rules(self, number: int | None = None) -> str:
        """One tree as indented text, with the number of training rows of each node and what its leaves predict.

        Parameters
        ----------
        number : int, optional
            The most probable tree by default.

        Returns
        -------
        str

        Examples
        --------
        >>> trees.rules().splitlines()[0]
        'all rows [79]'
        """
        return tree_rules(self._draws, self._number(number))

    def leaf_posterior(self, number: int | None = None, mass: float = 0.9) -> pd.DataFrame:
        """Each leaf of one tree: its rule, rows, and the posterior of its parameters.

        Parameters
        ----------
        number : int, optional
            The most probable tree by default.
        mass : float
            Of the central credible intervals.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the features were
            A row for each leaf, by its node's number: ``rule`` as text, ``rows`` of the training table, and the
            posterior mean of each parameter with the ends of its interval. The parameters are the probabilities of the
            classes, mean and sd, or the rate.

        Raises
        ------
        ValueError
            If there is no such tree, or `mass` lies outside (0, 1).

        Examples
        --------
        >>> trees.leaf_posterior().columns.tolist()
        ['rule', 'rows', 'mean', 'mean low', 'mean high', 'sd', 'sd low', 'sd high']
        """
        if not 0.0 < mass < 1.0:
            raise ValueError(f"mass must lie in (0, 1), got {quoted(mass)}")
        found = leaf_frame(self._draws, self._number(number), mass)
        return labelled_frame_of_kind(found, self._draws.features.frame, "node")

    def _number(self, number: int | None) -> int:
        if number is None:
            return self.most_probable()
        self.tree(number)
        return number

    @property
    def log_joint(self) -> "xr.DataArray":
        """(tree,) log prior of each tree plus the log marginal likelihood of its leaves, in nats.

        Examples
        --------
        >>> trees.log_joint.dims
        ('tree',)
        """
        import xarray as xr

        return xr.DataArray(self._draws.log_joint, dims="tree", attrs={"exactness": "exact"})

    @cached_property
    def _mixing(self) -> Mixing | None:
        """Of the log joint; None for trees that are not from chains."""
        if not self._draws.of_chains:
            return None
        return Mixing.of(self._draws.log_joint.reshape(len(np.unique(self._draws.group)), -1))

    def diagnose(
        self,
        questions: Questions | None = None,
        X: TableLike | None = None,
        y: npt.ArrayLike | None = None,
        max_rows: int = SHOWN_ROWS,
        progressbar: bool = True,
    ) -> pd.DataFrame:
        """R-hat and bulk effective size of the log joint, of log predictives of rows and of any questions, as a table.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives one value for each tree (dimension ``tree``) or for each draw of each
            chain, as in ``{"P(yes)": lambda post: post.predict_proba(new, per_draw=True).sel({"level": "yes"})}``. With
            other dimensions each of their labels has a row.
        X, y : optional
            Rows and responses for the log predictive, both or neither; by default the training rows.
        max_rows : int
            Rows that are shown, taken evenly. The mean over all rows is always there.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the features were
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat`` over the draws of all chains, NaN where
            they are not defined.

        Raises
        ------
        TypeError, ValueError
            If the trees are not from ``pm.sample``, or only one of `X` and `y` is given. If `questions` is not a
            mapping to functions, or an answer does not have one value for each tree.

        Examples
        --------
        >>> ps.TreePosterior.from_idata(tree_idata).diagnose().columns.tolist()
        ['mean', 'sd', 'ess_bulk', 'r_hat']
        """
        check_at_least("max_rows", max_rows, 0)
        values, coded = self._scored(X, y)
        rows = range(len(coded)) if not isinstance(X, pd.DataFrame) else X.index.tolist()
        with counted("Asking every tree", progressbar):
            found = agreement.diagnosis_of_trees(self, questions, values, coded, rows, max_rows)
        return labelled_frame_of_kind(found, self._draws.features.frame, "quantity")

    def tree_distance(
        self,
        numbers: Sequence[int] | None = None,
        n_pairs: int = 2000,
        random_seed: Seed | None = None,
        progressbar: bool = True,
    ) -> "xr.DataArray":
        """Share of pairs of training rows that one tree joins in a leaf and the other separates (one minus Rand).

        Parameters
        ----------
        numbers : sequence of int, optional
            Which trees; all by default.
        n_pairs : int
            Pairs of rows drawn at random; all pairs where there are not more.
        random_seed : int, Generator or None
            None draws other pairs in every call.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (tree, other) float64; exact for all pairs, else with ``mcse``, the largest standard error that a share of
            so many pairs can have.

        Raises
        ------
        ValueError
            If there is no such tree, or `n_pairs` is not an integer of at least 1.

        Examples
        --------
        >>> trees.tree_distance(n_pairs=100, random_seed=1).dims
        ('tree', 'other')
        """
        with counted("Comparing trees", progressbar):
            return agreement.distances(self._draws, numbers, n_pairs, np.random.default_rng(random_seed))

    def rhat(
        self, X: TableLike | None = None, y: npt.ArrayLike | None = None, progressbar: bool = True
    ) -> "xr.DataArray":
        """R-hat of log joint, number of leaves, depth, mean log predictive, and of the distance to a reference tree.

        Parameters
        ----------
        X, y : optional
            Rows and responses for the log predictive, both or neither; by default the training rows.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataArray
            (scalar,) float64, by the names ``log_joint``, ``leaves``, ``depth``, ``log_predictive`` and ``distance``.

        Raises
        ------
        ValueError
            If there are not two chains of ``pm.sample``, or only one of `X` and `y` is given.

        Examples
        --------
        >>> ps.TreePosterior.from_idata(tree_idata).rhat().dims
        ('scalar',)
        """
        values, coded = self._scored(X, y)
        with counted("Asking every tree", progressbar):
            return agreement.rhat(self._draws, values, coded).assign_attrs(self._mark())
