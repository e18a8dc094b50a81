"""Approximate log evidence of architectures: a network is trained from a cold start, the same one every time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from examples.convolutional.architecture import Architecture, architecture_of
from examples.convolutional.layout import NetworkLayout, make_layout
from examples.convolutional.network_kernels import evaluate, train
from pymc_spn.numerics.quoted_values import quoted


@dataclass(frozen=True, eq=False, repr=False)
class TrainedNetwork:
    """Weights of one architecture after training, and their score.

    Parameters
    ----------
    architecture : Architecture
    layout : NetworkLayout
    weights : (n_weights,) float64
    log_evidence : float
        The approximation, in nats.
    """

    architecture: Architecture
    layout: NetworkLayout
    weights: np.ndarray
    log_evidence: float


@dataclass(frozen=True, eq=False, repr=False)
class ArchitectureEvidence:
    """Log likelihood at trained weights in place of a log evidence, as a deterministic function of a graph.

    Equation (21) of the paper. **This is an approximation, and no small one**: weights are fitted, not integrated out,
    so that larger networks pay nothing for their weights when the training rows are scored; with rows held out the
    score is a plug-in estimate of their log predictive density given the others. What is exact is that it is one
    function of the graph: initial weights and batches follow from `random_seed` and the architecture alone, never
    from other graphs that a chain has visited, so that a sampler which accepts by it has a target.

    Parameters
    ----------
    images : (n, s, s) array
        Finite; s is a multiple of 2^(n_bins - 1).
    labels : (n,) array
        At least two different ones.
    held_out : (images, labels), optional
        Rows that are scored instead of the training rows; their labels must be among those of the training rows.
    n_bins : int
        Number of tensor shapes, equations (18) and (19).
    n_extra : int
        Channels beyond 2^bin, N_0 of equation (18).
    steps, batch_size : int
        Adam's; a batch is no larger than the data.
    rate : float
        Adam's at the start; it falls linearly to 0, which leaves less of the last batches in the score.
    random_seed : int

    Raises
    ------
    TypeError, ValueError
        Arguments out of range.

    References
    ----------
    Dallaire et al. (2020), The Indian chefs process, equations (17) to (21); the averages over pixels here are the sums
    of (20) in other units of the weights.
    """

    images: np.ndarray
    labels: np.ndarray
    held_out: tuple[np.ndarray, np.ndarray] | None = None
    n_bins: int = 3
    n_extra: int = 3
    steps: int = 100
    batch_size: int = 100
    rate: float = 0.01
    random_seed: int = 0
    classes: np.ndarray = field(init=False)
    _scores: dict[bytes, float] = field(init=False, default_factory=dict)
    _columns: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("n_bins", "steps", "batch_size", "n_extra", "random_seed"):
            value, least = getattr(self, name), 0 if name in ("n_extra", "random_seed") else 1
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}; got {quoted(value)}")
        if not np.isfinite(self.rate) or self.rate <= 0.0:
            raise ValueError(f"rate must be positive and finite; got {quoted(self.rate)}")
        images = _check_images("images", self.images)
        side, unit = images.shape[1], 1 << (self.n_bins - 1)
        if side % unit:
            raise ValueError(f"images must have a multiple of 2^(n_bins - 1) = {unit} pixels a side; they have {side}")
        classes, codes = np.unique(_check_labels("labels", self.labels, len(images)), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"labels must hold at least two classes; all are {classes[0].item()!r}")
        object.__setattr__(self, "classes", classes)
        scored, scored_codes = images, codes
        if self.held_out is not None:
            if not isinstance(self.held_out, tuple) or len(self.held_out) != 2:
                raise TypeError("held_out must be a pair (images, labels)")
            scored = _check_images("held_out[0]", self.held_out[0], side)
            others = _check_labels("held_out[1]", self.held_out[1], len(scored))
            unknown = others[~np.isin(others, classes)]
            if len(unknown):
                raise ValueError(f"held_out[1] must hold labels of the training rows; {unknown[0].item()!r} is none")
            scored_codes = np.searchsorted(classes, others)
        self._columns.update(
            training=_as_columns(images), codes=codes, scored=_as_columns(scored), scored_codes=scored_codes
        )

    @property
    def side(self) -> int:
        """Pixels of an image along one side."""
        return int(np.shape(self.images)[1])

    def log_evidence(
        self, reputations: np.ndarray, parents: np.ndarray, input_node: int = 0, output_node: int = 1
    ) -> float:
        """The approximate log evidence of a graph, in nats.

        Every architecture is trained once: the score is kept, which changes nothing but the time.

        Parameters
        ----------
        reputations : (n,) float64
        parents : (n, n) array of 0 and 1
        input_node, output_node : int

        Returns
        -------
        float
            That of guessing in equal parts where no path leads from input to output.
        """
        architecture = architecture_of(reputations, parents, input_node, output_node, self.n_bins)
        key = architecture.key
        if key not in self._scores:
            self._scores[key] = self.train(architecture).log_evidence
        return self._scores[key]

    @property
    def n_trained(self) -> int:
        """Number of architectures scored so far in this process."""
        return len(self._scores)

    def train(self, architecture: Architecture) -> TrainedNetwork:
        """Train one architecture from its cold start."""
        layout = make_layout(architecture, self.side, self.n_extra, len(self.classes))
        rng = np.random.default_rng(self.random_seed)
        weights = _initial_weights(rng, layout, len(self.classes))
        data = self._columns
        n = data["training"].shape[1]
        if layout.n_weights:
            batches = _batches(rng, n, min(self.batch_size, n), self.steps)
            train(weights, layout, data["training"], data["codes"], batches, float(self.rate), len(self.classes))
        score, _ = self._evaluate(layout, weights, data["scored"], data["scored_codes"])
        return TrainedNetwork(architecture, layout, weights, score)

    def predict_proba(self, network: TrainedNetwork, images: np.ndarray) -> np.ndarray:
        """(n, n_classes) label probabilities of new images, in the order of `classes`."""
        columns = _as_columns(_check_images("images", images, self.side))
        return self._evaluate(network.layout, network.weights, columns, np.full(columns.shape[1], -1))[1]

    def _evaluate(self, layout, weights, columns, codes):
        out = np.empty((len(self.classes), columns.shape[1]))
        total = evaluate(weights, layout, columns, codes, min(self.batch_size, columns.shape[1]), out)
        return total, np.ascontiguousarray(out.T)


def _initial_weights(rng, layout, n_classes):
    """Normal weights with variance 2 over the number of inputs (He et al. 2015), for the output 1 over it."""
    scale = np.empty(layout.n_weights)
    last = layout.weight_start[-1]
    for i in range(1, len(layout.channels) - 1):
        w, n = layout.weight_start[i], layout.n_patch[i]
        scale[w : w + n * layout.channels[i]] = np.sqrt(2.0 / n)
    scale[last:] = 1.0 / np.sqrt(max(layout.pooled.size, 1))
    return scale * rng.standard_normal(layout.n_weights)


def _batches(rng, n, size, steps):
    """(steps, size) rows: whole passes in random orders, cut into batches."""
    passes = -(-steps * size // n)
    rows = np.concatenate([rng.permutation(n) for _ in range(passes)])
    return rows[: steps * size].reshape(steps, size)


def _as_columns(images):
    return np.ascontiguousarray(images.reshape(len(images), -1).T)


def _check_images(name, images, side=None):
    values = np.asarray(images)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be numbers; got dtype {values.dtype}")
    values = values.astype(np.float64)
    if values.ndim != 3 or values.shape[1] != values.shape[2] or not len(values) or not values.shape[1]:
        raise ValueError(f"{name} must have shape (n, s, s), n and s at least 1; got {values.shape}")
    if side is not None and values.shape[1] != side:
        raise ValueError(f"{name} must have {side} pixels a side, as the training images; got {values.shape[1]}")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise ValueError(f"{name} must be finite; it is {values[tuple(bad[0])]} at {tuple(int(i) for i in bad[0])}")
    return values


def _check_labels(name, labels, n):
    values = np.asarray(labels)
    if values.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each image; got {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; it is {values[~np.isfinite(values)][0]}")
    return values
