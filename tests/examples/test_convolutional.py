"""Convolutional networks over graphs: values and gradients, evidence as a function of the graph, exact posteriors."""

import math

import numpy as np
import pymc as pm
import pytest

import pymc_spn as ps
from examples.convolutional.architecture import architecture_of
from examples.convolutional.evidence import ArchitectureEvidence
from examples.convolutional.layout import make_layout
from examples.convolutional.network_kernels import backward, forward, log_softmax
from examples.convolutional.ops import architecture_log_evidence

N_BINS, N_EXTRA = 3, 1


def prior_graphs(n, seed, gamma=3.0):
    """Reputations and parents of forward draws, input first and output second."""
    draws = ps.indian_chefs.sample_indian_chefs(
        1.0, gamma, 5.0, n_observed=2, reputations=[1.0, 0.0], draws=n, random_seed=seed
    ).transpose("draw", "node", "parent", "child")
    for i in range(n):
        k = int(draws.n_active[i])
        yield draws.reputations.values[i, :k], draws.parents.values[i, :k, :k]


def architectures(n, seed):
    found = [architecture_of(theta, z, 0, 1, N_BINS) for theta, z in prior_graphs(n, seed)]
    return [a for a in found if a.parents.any()]


def striped_images(n, seed, side=8):
    """Two classes, bars along and across, with noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    images = rng.random((n, side, side))
    for image, label, at in zip(images, labels, rng.integers(0, side, n), strict=True):
        image[(at, slice(None)) if label else (slice(None), at)] += 1.0
    return images, labels


def convolution_by_loops(tensor, filters, stride):
    """Of (channels, s, s) with (out, channels, m, m), zeros outside, centred as far as the stride allows."""
    side = tensor.shape[1]
    m = filters.shape[-1]
    pad = (m - stride + 1) // 2
    padded = np.pad(tensor, ((0, 0), (pad, m), (pad, m)))
    out = np.zeros((len(filters), side // stride, side // stride))
    for c, y, x in np.ndindex(out.shape):
        out[c, y, x] = (filters[c] * padded[:, y * stride : y * stride + m, x * stride : x * stride + m]).sum()
    return out


def logits_by_loops(weights, architecture, layout, image, n_classes):
    """Equations (17) and (20) for one image, weights read filter by filter."""
    n, side = len(architecture.bins), image.shape[0]
    tensors = {0: image[None]}
    for i in range(1, n - 1):
        out_side, channels = side >> architecture.bins[i], 2 ** architecture.bins[i] + N_EXTRA
        above = np.flatnonzero(architecture.parents[:, i])
        sizes = [len(tensors[k]) * max(3, tensors[k].shape[1] // out_side) ** 2 for k in above]
        block = weights[layout.weight_start[i] :][: channels * sum(sizes)].reshape(channels, -1)
        total = 0.0
        for k, part in zip(above, np.split(block, np.cumsum(sizes)[:-1], axis=1), strict=True):
            m = max(3, tensors[k].shape[1] // out_side)
            filters = part.reshape(channels, len(tensors[k]), m, m)
            total = total + convolution_by_loops(tensors[k], filters, tensors[k].shape[1] // out_side)
        tensors[i] = np.maximum(total, 0.0)
    means = np.concatenate([tensors[k].mean((1, 2)) for k in np.flatnonzero(architecture.parents[:, -1])])
    return weights[layout.weight_start[-1] :].reshape(n_classes, -1) @ means


def loss_and_gradient(weights, layout, images, labels):
    """Minus the log likelihood, its gradient, and the logits."""
    m = len(images)
    values = np.zeros((layout.first_row[-1] + 1, m))
    values[: layout.pixels[0]] = images.reshape(m, -1).T
    means, logits, gradient = np.zeros((layout.pooled.size, m)), np.zeros((2, m)), np.zeros(weights.size)
    forward(weights, layout, values, means, logits)
    held = logits.copy()
    total = log_softmax(logits, labels)
    backward(weights, layout, values, means, logits, np.zeros_like(values), gradient)
    return -total, gradient, held


def test_values_are_those_of_loops_and_gradients_those_of_differences():
    """Central differences at h = 1e-6 are good to 1e-8 of a loss of some nats; kinks of the ReLU are at no draw."""
    images, labels = striped_images(7, seed=1)
    rng = np.random.default_rng(2)
    strides = set()
    for architecture in architectures(12, seed=3)[:6]:
        layout = make_layout(architecture, 8, N_EXTRA, 2)
        strides |= {int(architecture.bins[i] - architecture.bins[k]) for k, i in np.argwhere(architecture.parents)}
        weights = 0.5 * rng.standard_normal(layout.n_weights)
        _, gradient, logits = loss_and_gradient(weights, layout, images, labels)
        for b in (0, 6):
            expected = logits_by_loops(weights, architecture, layout, images[b], 2)
            np.testing.assert_allclose(logits[:, b], expected, rtol=1e-10, atol=1e-12)
        for _ in range(10):
            direction = rng.standard_normal(layout.n_weights) * (rng.random(layout.n_weights) < 0.2)
            up, down = (loss_and_gradient(weights + h * direction, layout, images, labels)[0] for h in (1e-6, -1e-6))
            assert gradient @ direction == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-6)
    assert {0, 1, 2} <= strides


def small_evidence():
    images, labels = striped_images(40, seed=6)
    return ArchitectureEvidence(images, labels, n_bins=N_BINS, n_extra=N_EXTRA, steps=20, batch_size=10, rate=0.05)


@pytest.fixture(scope="module")
def evidence():
    return small_evidence()


def test_evidence_is_a_function_of_the_graph_alone(evidence):
    """Neither names of nodes, nor reputations within a bin, nor other graphs seen before change a bit of it."""
    rng = np.random.default_rng(7)
    graphs = [g for g in prior_graphs(20, seed=8, gamma=2.0) if architecture_of(*g, 0, 1, N_BINS).parents.any()][:8]
    first = [evidence.log_evidence(*g) for g in graphs]
    assert len({round(x, 9) for x in first}) > 4
    again = small_evidence()
    for (theta, z), value in reversed(list(zip(graphs, first, strict=True))):
        order = rng.permutation(len(theta))
        place = np.argsort(order)
        moved = np.floor(theta * N_BINS) / N_BINS + 0.5 / N_BINS
        moved[:2] = theta[:2]
        # other reputations of the same bins keep the order of parents and children
        moved += 0.1 / N_BINS * (np.argsort(np.argsort(theta)) - len(theta) / 2) / len(theta)
        for reputations in (theta, np.clip(moved, 0.0, 1.0)):
            graph = (reputations[order], z[np.ix_(order, order)])
            assert again.log_evidence(*graph, input_node=place[0], output_node=place[1]) == value


def test_nodes_without_input_do_not_matter_and_no_path_is_a_guess(evidence):
    theta = np.array([1.0, 0.0, 0.5])
    z = np.zeros((3, 3))
    z[0, 1] = 1
    direct = evidence.log_evidence(theta[:2], z[:2, :2])
    z[2, 1] = 1
    assert evidence.log_evidence(theta, z) == direct
    assert evidence.log_evidence(theta, 0 * z) == pytest.approx(40 * math.log(0.5), rel=1e-12)


def test_training_learns_and_its_score_is_the_log_likelihood():
    images, labels = striped_images(120, seed=9)
    names = np.array(["across", "along"])[labels]
    rows = slice(80)
    learned = ArchitectureEvidence(images[rows], names[rows], steps=150, batch_size=40, rate=0.03)
    chain = architecture_of(
        np.array([1.0, 0.0, 0.9, 0.5]), np.eye(4)[[2, 1, 3, 1]] * [[1], [0], [1], [1]], 0, 1, N_BINS
    )
    assert chain.statistics()["depth"] == 3
    network = learned.train(chain)
    p = learned.predict_proba(network, images)
    np.testing.assert_allclose(p.sum(1), 1.0, rtol=1e-12)
    right = np.take_along_axis(p, labels[:, None], 1)[:, 0]
    assert network.log_evidence == pytest.approx(np.log(right[rows]).sum(), rel=1e-9)
    assert list(learned.classes) == ["across", "along"]
    assert (p[80:].argmax(1) == labels[80:]).mean() > 0.9  # 1.0 with seeds 0 to 4 of the cold start
    held_out = ArchitectureEvidence(
        images[rows], names[rows], held_out=(images[80:], names[80:]), steps=150, batch_size=40, rate=0.03
    )
    assert held_out.train(chain).log_evidence == pytest.approx(np.log(right[80:]).sum(), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_bins": 5}, r"images must have a multiple of 2\^\(n_bins - 1\) = 16 pixels a side; they have 8"),
        ({"n_bins": 0}, "n_bins must be an integer of at least 1; got 0"),
        ({"steps": True}, "steps must be an integer of at least 1; got True"),
        ({"rate": -0.1}, "rate must be positive and finite"),
        ({"images": np.zeros((40, 8, 4))}, r"images must have shape \(n, s, s\)"),
        ({"images": np.full((40, 8, 8), np.nan)}, r"images must be finite; it is nan at \(0, 0, 0\)"),
        ({"labels": np.zeros(40)}, "labels must hold at least two classes; all are 0"),
        ({"labels": np.arange(29)}, r"labels must have shape \(40,\)"),
        ({"held_out": (np.zeros((1, 8, 8)), np.array([7]))}, r"held_out\[1\] must hold labels of the training rows; 7"),
        ({"held_out": (np.zeros((1, 4, 4)), np.array([1]))}, "must have 8 pixels a side"),
    ],
)
def test_bad_data_are_refused(evidence, settings, message):
    given = {"images": evidence.images, "labels": evidence.labels} | settings
    with pytest.raises(ValueError, match=message):
        ArchitectureEvidence(**given)


def test_a_graph_that_is_no_architecture_is_refused(evidence):
    with pytest.raises(TypeError, match="images must be numbers"):
        ArchitectureEvidence(np.full((4, 8, 8), "a"), np.arange(4))
    with pm.Model():
        g = ps.IndianChefsProcess("g", alpha=1.0, gamma=1.0, phi=1.0, observed_nodes=["image", "label"])
        with pytest.raises(ValueError, match="input node 'image' must have reputation 1 in the graph; it is at 0"):
            architecture_log_evidence(g, evidence, "image", "label")
        with pytest.raises(ValueError, match="must have the observed nodes 'image' and 'class' alone"):
            architecture_log_evidence(g, evidence, "image", "class")
        with pytest.raises(TypeError, match="evidence must be an ArchitectureEvidence"):
            architecture_log_evidence(g, len, "image", "label")
    with pytest.raises(ValueError, match=r"parents must have shape \(2, 2\)"):
        evidence.log_evidence(np.array([1.0, 0.0]), np.zeros((3, 3)))
    with pytest.raises(ValueError, match="input_node and output_node must be two of 2 nodes; got 0 and 2"):
        evidence.log_evidence(np.array([1.0, 0.0]), np.zeros((2, 2)), 0, 2)
    with pytest.raises(ValueError, match=r"parents must stand above their children; node 1 at 0 feeds 0 at 1"):
        evidence.log_evidence(np.array([1.0, 0.0]), np.eye(2, k=-1))
    with pytest.raises(ValueError, match=r"reputations must lie in \[0, 1\]; node 1 has nan"):
        evidence.log_evidence(np.array([1.0, np.nan]), np.zeros((2, 2)))
