"""Joint against conditional fit of the same circuit: log loss of a label on rows held out.

A row for each table and size of the circuit, a mixture of products: mean log loss in nats (and share of errors) over
splits, of `ps.fit_em`, of the mode of the conditional model that starts there, and of scikit-learn's logistic
regression; in how many splits the conditional fit is ahead of the joint one, and its median seconds.

    python -m tests.benchmarks.circuits_discriminative
"""

import argparse
import logging
import time

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold

import pymc_spn as ps
from tests.benchmarks.report import machine, markdown_table

TABLES = {"iris": 4, "wine": 13, "breast_cancer": 10}  # columns: of the last the ten means of 30


def labelled_table(name):
    """Standardised numbers with the column "label" behind them."""
    data = getattr(datasets, f"load_{name}")(as_frame=True)
    x = data.data.iloc[:, : TABLES[name]]
    return ((x - x.mean()) / x.std()).assign(label=data.target_names[data.target])


def mixture_of_products(table, n_components):
    columns = table.columns
    leaves = {c.name: ["categorical" if c.name == "label" else "gaussian"] for c in columns}
    tree = ps.circuits.complete_tree(columns, n_children=[n_components, 1], n_parts=len(columns))
    return tree.circuit(leaves)


class ConditionalFit:
    """A model of the label given the rest, whose rows are exchanged from split to split."""

    def __init__(self, table, circuit):
        self.circuit, names = circuit, circuit.names[:-1]
        n_leaves, n_components = (circuit.leaves_of(f).size for f in ("gaussian", "categorical"))
        n_levels = len(table.columns[-1].levels)
        self.top = circuit.edge_sum == 0  # the other sums have one child
        with pm.Model() as self.model:
            log_weights = ps.circuits.dirichlet_log_weights(circuit, 1.1, "weights")
            mean = pm.Normal("mean", 0.0, 1.0, shape=n_leaves)
            log_sd = pm.Normal("log_sd", 0.0, 0.5, shape=n_leaves)
            label = pm.Dirichlet("label", np.full((n_components, n_levels), 1.1))
            leaves = {"gaussian": pt.stack([mean, pt.exp(log_sd)], axis=1), "categorical": label}
            given = {names: pm.Data("given", table.values[:, :-1])}
            labels = pm.Data("labels", table.values[:, -1:])
            ps.CircuitDensity("rows", circuit, log_weights, leaves, observed=labels, given=given)

    def mode(self, rows, joint):
        """Log weights and leaf parameters at the mode that is climbed to from the joint fit."""
        gaussian, label = joint.leaf_parameters["gaussian"], joint.leaf_parameters["categorical"]
        start = {
            "weights": np.exp(joint.log_weights[self.top])[None], "mean": gaussian[:, 0],
            "log_sd": np.log(gaussian[:, 1]), "label": label,
        }  # fmt: skip
        with self.model:
            pm.set_data({"given": rows[:, :-1], "labels": rows[:, -1:]})
            best = pm.find_MAP(initvals=start, jitter=False, return_inferencedata=False, progressbar=False)
        log_weights = np.zeros(self.circuit.n_sum_edges)
        log_weights[self.top] = np.log(best["weights"][0])
        leaves = np.stack([best["mean"], np.exp(best["log_sd"])], axis=1)
        return log_weights, {"gaussian": leaves, "categorical": best["label"]}


def label_probabilities(circuit, rows, log_weights, leaf_parameters):
    """(N, levels) given the other columns."""
    n_levels = leaf_parameters["categorical"].shape[1]
    logs = [
        circuit.with_parameters(log_weights, leaf_parameters)
        .log_density(np.column_stack([rows[:, :-1], np.full(len(rows), k)]))
        .values
        for k in range(n_levels)
    ]
    p = np.exp(np.stack(logs, axis=1) - np.max(logs, axis=0)[:, None])
    return p / p.sum(axis=1, keepdims=True)


def loss_and_errors(probabilities, codes):
    codes = codes.astype(int)
    return -np.log(probabilities[np.arange(len(codes)), codes]).mean(), (probabilities.argmax(axis=1) != codes).mean()


def compare(name, n_components, n_repeats):
    """(splits, 3, 2): loss and errors of joint fit, conditional fit and logistic regression; and (splits,) seconds."""
    table = ps.Table.from_frame(labelled_table(name))
    circuit = mixture_of_products(table, n_components)
    conditional = ConditionalFit(table, circuit)
    splits = RepeatedStratifiedKFold(n_splits=5, n_repeats=n_repeats, random_state=0)
    found, seconds = [], []
    for train, test in splits.split(table.values, table.values[:, -1]):
        rows, held_out = table.values[train], table.values[test]
        joint = ps.fit_em(circuit, ps.Table(table.columns, rows, table.index[train]), random_seed=1, progressbar=False)
        begin = time.perf_counter()
        of_mode = conditional.mode(rows, joint)
        seconds.append(time.perf_counter() - begin)
        logistic = LogisticRegression(max_iter=5_000).fit(rows[:, :-1], rows[:, -1])
        found.append([
            *(loss_and_errors(label_probabilities(circuit, held_out, *own), held_out[:, -1])
              for own in ((joint.log_weights, joint.leaf_parameters), of_mode)),
            loss_and_errors(logistic.predict_proba(held_out[:, :-1]), held_out[:, -1]),
        ])  # fmt: skip
    return np.array(found), np.array(seconds)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--components", type=int, nargs="+", default=[3, 8])
    arguments.add_argument("--repeats", type=int, default=4)
    arguments = arguments.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    rows = []
    for name in TABLES:
        for n_components in arguments.components:
            found, seconds = compare(name, n_components, arguments.repeats)
            ahead = np.count_nonzero(found[:, 1, 0] < found[:, 0, 0])
            cells = [f"{loss:.3f} ({100 * errors:.1f} %)" for loss, errors in found.mean(axis=0)]
            rows.append([name, n_components, *cells, f"{ahead} of {len(found)}", f"{np.median(seconds):.1f}"])
    print(machine() + "\n")
    print(markdown_table(["Table", "Components", "Joint", "Conditional", "Logistic regression", "Ahead", "s"], rows))


if __name__ == "__main__":
    main()
