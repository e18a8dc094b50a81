"""Figure 5 of the paper from the numbers of `indian_chefs_architectures`: numbers, reputations, example networks."""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

NUMBERS = {
    "accuracy": "test accuracy",
    "nodes": "nodes",
    "degree": "mean degree",
    "width": "width (paths)",
    "depth": "depth (edges)",
}
PRIOR, POSTERIOR = "#b45309", "#1d4ed8"


def draw_all(folder, draws, posterior, prior):
    """Three files: ``architectures_numbers.png``, ``architectures_nodes.png``, ``architectures_examples.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    places = examples(posterior)
    for name, figure in (
        ("numbers", draw_numbers(posterior, prior, places)),
        ("nodes", draw_nodes(draws, posterior)),
        ("examples", draw_examples(draws, posterior, places)),
    ):
        figure.savefig(folder / f"architectures_{name}.png", dpi=90)
        plt.close(figure)


def examples(posterior):
    """Three draws (chain, draw): of few, of middling and of many nodes."""
    nodes = posterior["nodes"].values
    ranked = np.argsort(nodes.ravel(), kind="stable")
    return [np.unravel_index(ranked[int(q * (len(ranked) - 1))], nodes.shape) for q in (0.05, 0.5, 0.98)]


def draw_numbers(posterior, prior, places):
    """Panel A: histograms on the diagonal, pairs below it (posterior) and above it (prior)."""
    n = len(NUMBERS)
    figure, axes = plt.subplots(n, n, figsize=(11, 10), layout="constrained")
    rng = np.random.default_rng(0)
    limits = {k: bounds(k, posterior[k].values, prior[k].values) for k in NUMBERS}
    for i, row in enumerate(NUMBERS):
        for j, column in enumerate(NUMBERS):
            ax = axes[i, j]
            if column == "width":
                ax.set_xscale("log")
            ax.set_xlim(limits[column])
            if i == j:
                edges = bin_edges(row, limits[row])
                for data, colour, label in ((prior, PRIOR, "prior"), (posterior, POSTERIOR, "posterior")):
                    x = data[row].values.ravel()
                    ax.hist(x, edges, weights=np.full(x.size, 1.0 / x.size), color=colour, alpha=0.55, label=label)
                ax.set_yticks([])
            else:
                data, colour = (posterior, POSTERIOR) if i > j else (prior, PRIOR)
                if row == "width":
                    ax.set_yscale("log")
                ax.set_ylim(limits[row])
                x, y = (data[k].values.ravel() for k in (column, row))
                # integers would lie on each other
                x, y = (spread_out(rng, k, v) for k, v in ((column, x), (row, y)))
                ax.plot(x, y, ".", color=colour, alpha=0.35, markersize=4)
                if i > j:
                    for place, colour in zip(places, ("#dc2626", "#059669", "#7c3aed"), strict=True):
                        at = [float(posterior[k].values[place]) for k in (column, row)]
                        ax.plot(*at, "+", color=colour, markersize=11, markeredgewidth=2)
            ax.tick_params(labelsize=7)
            if i == n - 1:
                ax.set_xlabel(NUMBERS[column])
            else:
                ax.set_xticklabels([])
                ax.tick_params(which="both", labelbottom=False)
            if j == 0 and i > 0:
                ax.set_ylabel(NUMBERS[row])
            elif j == n - 1 and i < j:
                ax.yaxis.set_label_position("right")
                ax.tick_params(which="both", labelleft=False, labelright=True, left=False, right=True)
                ax.set_ylabel(NUMBERS[row])
            elif j > 0:
                ax.tick_params(which="both", labelleft=False)
    axes[0, 0].legend(fontsize=7)
    axes[0, 0].set_ylabel("share of draws")
    figure.suptitle("Architectures: posterior below the diagonal, prior above it, crosses are the three examples")
    return figure


def bounds(name, *arrays):
    low, high = min(a.min() for a in arrays), max(a.max() for a in arrays)
    if name == "width":
        return 0.7, 1.4 * max(high, 2.0)
    margin = 0.04 * max(high - low, 1e-9) + (0.5 if name in ("nodes", "depth") else 0.0)
    return low - margin, high + margin


def bin_edges(name, limits):
    if name in ("nodes", "depth"):
        return np.arange(np.floor(limits[0]) - 0.5, np.ceil(limits[1]) + 1.0)
    if name == "width":
        return np.geomspace(*limits, 20)
    return np.linspace(*limits, 25)


def spread_out(rng, name, x):
    if name in ("nodes", "depth"):
        return x + rng.uniform(-0.3, 0.3, x.size)
    if name == "width":
        return x * np.exp(rng.uniform(-0.08, 0.08, x.size))
    return x


def draw_nodes(draws, posterior):
    """Panel B: mean, sd, lowest and highest reputation, and popularity, of the hidden nodes of each draw."""
    popularities = draws.popularities(random_seed=1).values[..., 2:]
    figure, axes = plt.subplots(2, 4, figsize=(11, 5), layout="constrained")
    for i, (word, values) in enumerate(
        (("reputation", {k: posterior[k].values for k in ("mean", "sd", "min", "max")}), ("popularity", None))
    ):
        if values is None:
            held = popularities[np.isfinite(popularities).any(-1)]
            values = {
                k: f(held, axis=-1)
                for k, f in (("mean", np.nanmean), ("sd", np.nanstd), ("min", np.nanmin), ("max", np.nanmax))
            }
        for ax, (name, x) in zip(axes[i], values.items(), strict=True):
            x = x[np.isfinite(x)]
            ax.hist(x, np.linspace(0.0, 0.6 if name == "sd" else 1.0, 25), color=POSTERIOR, alpha=0.8)
            ax.set_title(f"{name} {word}", fontsize=10)
            ax.set_xlabel(f"{word} of hidden nodes", fontsize=8)
            ax.tick_params(labelsize=8)
        axes[i, 0].set_ylabel("draws")
    return figure


def draw_examples(draws, posterior, places):
    """Panel C: three networks with reputations on the vertical axis."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained")
    for ax, place in zip(axes, places, strict=True):
        one = {k: float(posterior[k].values[place]) for k in ("nodes", "depth", "width", "accuracy")}
        graph = draws.to_networkx(*(int(i) for i in place))
        across = nx.spring_layout(graph, seed=1)
        at = {node: (across[node][0], reputation) for node, reputation in graph.nodes("reputation")}
        nx.draw_networkx(graph, at, ax=ax, node_color="white", edgecolors="black", font_size=7)
        ax.set_ylabel("reputation")
        ax.tick_params(left=True, labelleft=True)
        ax.set_title(
            f"{one['nodes']:.0f} nodes in use, depth {one['depth']:.0f}, width {one['width']:.0f}, "
            f"accuracy {one['accuracy']:.3f}",
            fontsize=9,
        )
    return figure
