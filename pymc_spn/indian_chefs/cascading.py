"""Cascading Indian buffets: the layered priors that the Indian chefs process is compared with.

Layer 0 holds the D observed units. Given the N_l units of layer l, layer l + 1 holds the dishes of a two-parameter
Indian buffet whose customers are the units of layer l. Unit n takes dish k with probability m_k / (beta + n - 1) and
Poisson(mass beta / (beta + n - 1)) new ones. The cascade ends at a layer without units, almost surely.

The extended prior adds edges that pass layers. The urn of each unit goes on over the units of all layers further down,
from the nearest to the lowest, with P(edge) = m_k / (beta + number of units seen). This is a reconstruction from the
abstract of Dallaire et al. (2014), whose text says "an extra sampling step for non-consecutive layers".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy.special import betaln, gammaln

from pymc_spn.indian_chefs.process import check_nodes, check_positive
from pymc_spn.indian_chefs.simulation import labelled_graphs
from pymc_spn.numerics.asked_numbers import checked_count
from pymc_spn.tables.inputs import Seed

MOST_UNITS = 1 << 14


@dataclass(frozen=True)
class CascadingIBP:
    """Cascading Indian buffet process: graphs in layers (Adams et al. 2010).

    Parameters
    ----------
    mass, concentration : float or sequence of float
        Expected dishes of one customer, and beta; a sequence holds one for each layer from the first hidden one up, its
        last goes on above.
    observed_nodes : int or sequence of str
    passes_layers : bool
        True for the extended prior, whose edges may pass layers (after Dallaire et al. 2014).

    Examples
    --------
    >>> prior = ps.indian_chefs.CascadingIBP(mass=1.0, concentration=1.0, observed_nodes=3)
    >>> drawn = prior.sample(draws=5, random_seed=1)

    References
    ----------
    Adams, Wallach and Ghahramani (2010), Learning the structure of deep sparse graphical models. The process is
    recalled, its equations were not read again. Dallaire, Giguere and Chaib-draa (2014), Learning the structure of
    probabilistic graphical models with an extended cascading Indian buffet process; the continued urn is a
    reconstruction.
    """

    mass: float | Sequence[float]
    concentration: float | Sequence[float]
    observed_nodes: int | Sequence[str]
    passes_layers: bool = False

    def __post_init__(self) -> None:
        names = check_nodes(self.observed_nodes)
        object.__setattr__(self, "observed_nodes", names)
        for argument in ("mass", "concentration"):
            value = getattr(self, argument)
            several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
            values = tuple(check_positive(argument, v) for v in (value if several else [value]))
            if not values:
                raise ValueError(f"{argument} must hold at least one number")
            object.__setattr__(self, argument, values)

    @property
    def _names(self) -> tuple[str, ...]:
        return check_nodes(self.observed_nodes)

    def _of_layer(self, layer: int) -> tuple[float, float]:
        """Mass and concentration of hidden layer 1, 2, ..."""
        mass, concentration = np.atleast_1d(self.mass), np.atleast_1d(self.concentration)
        return float(mass[min(layer, mass.size) - 1]), float(concentration[min(layer, concentration.size) - 1])

    def log_density(self, parents: npt.ArrayLike, layers: npt.ArrayLike) -> float:
        """Calculate the log probability of a layered graph in left-ordered form.

        Parameters
        ----------
        parents : (n, n) bool
            [k, i] where unit k is a parent of unit i; observed units first.
        layers : (n,) int
            0 for observed units.

        Returns
        -------
        float
            In nats; -inf for graphs that the prior cannot make. In these a layer is skipped, a hidden unit has no child
            in the layer below it, or an edge does not go one layer down. In the extended prior an edge may go any
            number of layers down.

        Raises
        ------
        ValueError
            If shapes do not fit, or the observed units are not those of layer 0.

        Examples
        --------
        >>> prior = ps.indian_chefs.CascadingIBP(mass=1.0, concentration=1.0, observed_nodes=1)
        >>> prior.log_density([[False]], [0])  # no hidden unit
        -1.0
        """
        parents, layers = np.asarray(parents), np.asarray(layers)
        n, d = len(layers), len(self._names)
        if parents.shape != (n, n) or n < d or not np.isin(parents, (0, 1)).all():
            raise ValueError(f"parents must be (n, n) of 0 and 1 with layers (n,); got {parents.shape}, {layers.shape}")
        if not np.array_equal(layers == 0, np.arange(n) < d):
            raise ValueError(f"layers must be 0 for the {d} observed units, which come first, and positive for others")
        parents = parents.astype(bool)
        drop = layers[:, None] - layers[None, :]
        if (parents & (drop < 1)).any() or (not self.passes_layers and (parents & (drop != 1)).any()):
            return -np.inf
        top = int(layers.max())
        out = np.float64(0.0)
        for layer in range(1, top + 2):
            below, units = np.flatnonzero(layers == layer - 1), np.flatnonzero(layers == layer)
            if not units.size and layer <= top:
                return -np.inf
            mass, beta = self._of_layer(layer)
            seen = np.arange(len(below))
            out -= mass * (beta / (beta + seen)).sum()
            held = parents[np.ix_(units, below)]
            m = held.sum(1)
            if (m == 0).any():
                return -np.inf
            out += len(units) * np.log(mass * beta) + betaln(m, len(below) - m + beta).sum()
            skipped = self._skipping(layers, layer)
            # units with the same edges are interchangeable
            _, alike = np.unique(np.hstack([held, parents[np.ix_(units, skipped)]]), axis=0, return_counts=True)
            out -= gammaln(alike + 1.0).sum()
            total = len(below) + len(skipped)
            m_all = m + parents[np.ix_(units, skipped)].sum(1)
            # the urn goes on: what Beta(m, N - m + beta) has become after the units of the layers further down
            out += (betaln(m_all, total - m_all + beta) - betaln(m, len(below) - m + beta)).sum()
        return float(out)

    def _skipping(self, layers: np.ndarray, layer: int) -> np.ndarray:
        """Units that edges of a layer may reach beyond the next layer down."""
        if not self.passes_layers:
            return np.zeros(0, np.int64)
        return np.flatnonzero(layers < layer - 1)

    def sample(self, draws: int = 1000, random_seed: Seed | None = None) -> xr.Dataset:
        """Draw independent, exact graphs with their layers.

        Parameters
        ----------
        draws : int
        random_seed : int, Generator or None

        Returns
        -------
        Dataset
            ``n_active`` (draw), ``parents`` (draw, parent, child) bool, ``layers`` (draw, node) int64 with -1 where
            there is no node, and ``reputations`` (draw, node). A reputation is the layer l as l / (1 + l), which
            respects every edge.

        Raises
        ------
        ValueError
            If a draw has more than 16,384 units.

        Examples
        --------
        >>> prior = ps.indian_chefs.CascadingIBP(mass=1.0, concentration=1.0, observed_nodes=3)
        >>> drawn = prior.sample(draws=5, random_seed=1)
        """
        checked_count("draws", draws, 1, 10.0 * len(self._names) ** 2)
        rng = np.random.default_rng(random_seed)
        graphs = [self._draw(rng) for _ in range(draws)]
        found = labelled_graphs(self._names, [(edges, layers / (1.0 + layers)) for edges, layers in graphs])
        places = np.full(found["reputations"].shape, -1)
        for s, (_, layers) in enumerate(graphs):
            places[s, : len(layers)] = layers
        return found.assign(layers=(("draw", "node"), places))

    def _draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Parents (n, n) bool and layers (n,) int64 of one graph, observed units first."""
        layers = [0] * len(self._names)
        edges: list[tuple[int, int]] = []
        layer = 0
        while True:
            below = [i for i, at in enumerate(layers) if at == layer]
            layer += 1
            mass, beta = self._of_layer(layer)
            dishes: list[list[int]] = []
            for n, unit in enumerate(below):
                for dish in dishes:
                    if rng.random() * (beta + n) < len(dish):
                        dish.append(unit)
                new = rng.poisson(mass * beta / (beta + n))
                if len(layers) + len(dishes) + new > MOST_UNITS:
                    raise ValueError(f"mass and concentration gave a graph of more than {MOST_UNITS:,} units")
                dishes += [[unit] for _ in range(new)]
            if not dishes:
                break
            if self.passes_layers:
                further = sorted((i for i, at in enumerate(layers) if at < layer - 1), key=lambda i: -layers[i])
                for dish in dishes:
                    for seen, unit in enumerate(further):
                        if rng.random() * (beta + len(below) + seen) < len(dish):
                            dish.append(unit)
            for dish in dishes:
                layers.append(layer)
                edges += [(len(layers) - 1, unit) for unit in dish]
        parents = np.zeros((len(layers), len(layers)), bool)
        for k, i in edges:
            parents[k, i] = True
        return parents, np.array(layers)
