"""What posteriors of all families share: reading, saving, averages over draws with their errors, how chains met."""

from abc import ABC, abstractmethod
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pymc_spn.numerics.chain_mixing import Mixing, Questions, diagnosis
from pymc_spn.numerics.effective_sizes import mean_errors
from pymc_spn.numerics.html_repr import NotebookRepr
from pymc_spn.numerics.marks import GIVEN_DRAWS, limited
from pymc_spn.numerics.progress_bars import counted
from pymc_spn.records.structure_records import Recorded, StructureRecord
from pymc_spn.tables.frame_kinds import labelled_frame_of_kind
from pymc_spn.tables.saved_files import save_tree
from pymc_spn.tables.tree_files import reading

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

ASKING = "Asking every draw"  # what the bar says


class StoredPosterior(NotebookRepr, ABC):
    """A posterior object with a file; a subclass says by `_saved` and `_of_tree` what the file holds."""

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> Self:
        """Read what `save` wrote; every answer has the same bits as before.

        Parameters
        ----------
        path : str or path-like

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is damaged, or holds another kind of posterior.

        Examples
        --------
        >>> trees.save(folder / "trees.nc")
        >>> ps.TreePosterior.load(folder / "trees.nc").predict(X.head(2)).dims
        ('row',)
        """
        with reading(path) as tree:
            return cls._from_tree(tree)

    def save(self, path: "str | PathLike[str]") -> None:
        """Write all that the answers need to one netCDF file, which `ps.load` reads.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.

        Examples
        --------
        >>> dags.save(folder / "dags.nc")
        >>> ps.load(folder / "dags.nc").engine
        'exact'
        """
        save_tree(self._saved(), path)

    @classmethod
    def _from_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Self:
        """What a tree holds, with the warnings that belong to it."""
        return cls._of_tree(tree, name)

    @classmethod
    @abstractmethod
    def _of_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Self:
        """What a tree holds."""

    @abstractmethod
    def _saved(self) -> "xr.DataTree":
        """What the file holds."""


class PosteriorOfDraws(StoredPosterior):
    """Draws of a structure that answer questions; a subclass answers each under every draw.

    It has ``schema`` and ``model_digest``, and as a rule the labels ``chains`` and ``draws``; it says by `_of` how it
    is made from recorded draws.
    """

    record: ClassVar[StructureRecord]
    schema: Any
    chains: np.ndarray
    draws: np.ndarray

    @property
    def _labels(self) -> dict[str, np.ndarray]:
        """Labels of chains and draws."""
        return {"chain": self.chains, "draw": self.draws}

    @classmethod
    def from_idata(cls, idata: "xr.DataTree | str | PathLike[str]", name: str | None = None) -> Self:
        """Read the draws from what ``pm.sample`` returned, or from a file.

        Parameters
        ----------
        idata : DataTree or path
            Also of a file that `save` wrote.
        name : str, optional
            The structure's name in the model, where there are several.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If there are no such draws, or several structures and no name is given. If draws or data were altered.

        Warns
        -----
        ConvergenceWarning
            If R-hat of the log joint is above 1.1 or its effective size below 50, over 100 draws of two chains or more.

        Examples
        --------
        >>> ps.DagDraws.from_idata(dag_idata).names
        ('age', 'income', 'debt')
        """
        with reading(idata) as tree:
            return cls._from_tree(tree, name)

    @classmethod
    def _from_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Self:
        post = cls._of_tree(tree, name)
        if post._mixing is not None:
            post._mixing.warn(post._name)
        return post

    @classmethod
    def _of_tree(cls, tree: "xr.DataTree", name: str | None = None) -> Self:
        return cls._of(cls.record.read(tree, name))

    @classmethod
    @abstractmethod
    def _of(cls, recorded: Recorded) -> Self:
        """The posterior of recorded draws."""

    # ---- chains

    @cached_property
    def _log_joint(self) -> np.ndarray | None:
        """(chain, draw) log density of each draw and the data, as it was recorded; None where it was not."""
        return None

    @cached_property
    def _mixing(self) -> Mixing | None:
        return None if self._log_joint is None else Mixing.of(self._log_joint)

    @property
    def _frame(self) -> str | None:
        """Which kind of table is given back."""
        return getattr(self.schema, "frame", None)

    @property
    def _name(self) -> str:
        return self.schema.name

    def _own_numbers(self) -> "dict[str, xr.DataArray]":
        """Numbers (chain, draw) that `diagnose` always shows."""
        return {} if self._log_joint is None else {"log_joint": self._of_draws("log_joint", self._log_joint, {})}

    def diagnose(self, questions: Questions | None = None, *, progressbar: bool = True) -> "pd.DataFrame":
        """Tabulate R-hat and effective size of each number and of any questions.

        Parameters
        ----------
        questions : mapping of str to callable, optional
            Each takes the posterior and gives an array with the dimensions ``chain`` and ``draw``, as answers with
            ``per_draw=True`` are. With other dimensions each of their labels has a row.
        progressbar : bool
            Whether a bar shows how far the answer is, if it lasts.

        Returns
        -------
        DataFrame, of pandas, polars or pyarrow as the data were
            A row for each number: ``mean``, ``sd``, ``ess_bulk`` and ``r_hat`` over the draws of all chains, NaN where
            they are not defined.

        Raises
        ------
        TypeError, ValueError
            If `questions` is not a mapping to functions, or an answer does not have one value for each draw.

        Examples
        --------
        >>> dag_draws.diagnose({"edge": lambda post: post.edge_probabilities(per_draw=True)}).columns.tolist()
        ['mean', 'sd', 'ess_bulk', 'r_hat']
        """
        with counted(ASKING, progressbar):
            found = diagnosis(self, questions, self._own_numbers())
        return labelled_frame_of_kind(found, self._frame, "quantity")

    # ---- answers

    def _of_draws(self, name: str, values: np.ndarray, coords: dict[str, Any], **attrs: Any) -> "xr.DataArray":
        """Numbers (chain, draw, ...) with their labels."""
        import xarray as xr

        labels = self._labels | coords
        return xr.DataArray(values, labels, list(labels), name, attrs)

    def _average(
        self, name: str, values: np.ndarray, coords: dict[str, Any], per_draw: bool = False, **attrs: Any
    ) -> "xr.DataArray":
        """Numbers (chain, draw, ...), or their average with the largest Monte Carlo standard error.

        ``attrs["mcse"]`` is NaN below four draws, and 0 where no number varies.
        """
        import xarray as xr

        if per_draw:
            return self._of_draws(name, values, coords, exactness=limited("exact", GIVEN_DRAWS), **attrs)
        errors = errors_of_means(values)
        worst = float(np.nanmax(errors, initial=0.0)) if values.shape[1] > 3 else float("nan")
        attrs = {"exactness": "monte-carlo", "mcse": worst, **attrs}
        return xr.DataArray(values.mean(axis=(0, 1)), coords, list(coords), name, attrs)


def errors_of_means(values: np.ndarray) -> np.ndarray:
    """Standard errors (...) of means over draws (chain, draw, ...): NaN for what never varies, or below four draws."""
    errors = np.full(values.shape[2:], np.nan)
    varies = (values != values[:1, :1]).any(axis=(0, 1))
    if values.shape[1] > 3 and varies.any():
        errors[varies] = mean_errors(values[:, :, varies])
    return errors
