"""Log density of the same circuit with the same parameters: ours against SPFlow, deeprob-kit and cirkit; events: sppl.

    python -m tests.benchmarks.circuits_engine_peers FOLDER --interpreter python3.11 --sppl-interpreter python3.10

The peers live in environments of their own, which the first run makes in the folder and fills by pip (deeprob-kit is
archived and gets one for itself; `--interpreter` is the Python that they support. sppl pins NumPy 1.22 and SciPy 1.8,
for which there are wheels up to Python 3.10). The script starts itself there, one library at a time, between two rounds
of ours. Circuits are exported node by node, with what a peer has for speed: sums over the leaves of one column become
channels of one leaf module, nodes with all pairs of two regions below them become an outer product and one dense sum.
Sixteen Gaussian columns, a tenth of the cells missing, 64-bit floats, one thread; medians of CPU seconds.
Then probabilities of events in two columns, also of one given the other: sppl takes one event a call, ours one or all.
The last table asks each for the most probable value of 0.6 N(0, sd 5) + 0.4 N(10, sd 0.1).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy as np

SUM, PRODUCT, LEAF = 0, 1, 2
LEAST = 0.02  # seconds of a round of single rows
PEERS = {"spflow": "spflow", "cirkit": "libcirkit", "deeprob": "deeprob-kit", "sppl": "sppl"}  # and distributions
ENVIRONMENTS = {"layers": ("spflow", "cirkit"), "nodes": ("deeprob",), "events": ("sppl",)}
DENSITIES = ("spflow", "cirkit", "deeprob")  # peers that are asked for log densities; they need torch
N_EVENTS, ASKED = 2_000, 40  # of all at once, and of those that are asked one at a time


class Exported:
    """A circuit with Gaussian leaves, and what its nodes have in common.

    Parameters
    ----------
    arrays : dict of arrays
        kind, child_ptr, children, column, log_weights (for each edge below a sum), parameters (mean and standard
        deviation of each leaf, in node order), values.
    """

    def __init__(self, arrays):
        self.kind, self.column, self.values = arrays["kind"], arrays["column"], arrays["values"]
        self.below = [
            tuple(c.tolist()) for c in np.split(arrays["children"], arrays["child_ptr"][1:-1].astype(np.int64))
        ]
        self.leaf = dict(zip(np.flatnonzero(self.kind == LEAF).tolist(), arrays["parameters"].tolist(), strict=True))
        sums = np.flatnonzero(self.kind == SUM)
        ends = np.cumsum([len(self.below[v]) for v in sums])
        weights = np.exp(arrays["log_weights"])
        self.weight = dict(zip(sums.tolist(), np.split(weights, ends[:-1]), strict=True))
        self.alike = {}  # sums with the same children, by those children
        for v in sums.tolist():
            self.alike.setdefault(self.below[v], []).append(v)

    def matrix(self, group):
        """Weights (children, sums) of sums with the same children."""
        return np.stack([self.weight[v] for v in group], axis=1)

    def factors(self, children):
        """The two groups of nodes whose pairs, in order, the products are; None if they are no such product."""
        pairs = [self.below[c] for c in children]
        if len(pairs) == 1 or any(len(p) != 2 for p in pairs):
            return None
        first, second = (tuple(dict.fromkeys(p[i] for p in pairs)) for i in (0, 1))
        return (first, second) if pairs == list(product(first, second)) else None

    def build(self, leaves, mixture, pair, single):
        """Walk up from the leaves to the root's layer.

        Parameters
        ----------
        leaves : callable (column, means, sds) -> layer
        mixture : callable (list of layers, weights (children, sums)) -> layer
        pair : callable (layer, layer) -> layer with all products of two nodes
        single : callable (list of layers) -> layer with one product
        """
        made = {}

        def layer(nodes):
            if nodes in made:
                return made[nodes]
            if self.kind[nodes[0]] == LEAF:
                theta = np.array([self.leaf[v] for v in nodes])
                made[nodes] = leaves(int(self.column[nodes[0]]), theta[:, 0], theta[:, 1])
                return made[nodes]
            children = self.below[nodes[0]]
            if self.kind[children[0]] == LEAF:
                inputs = [layer(children)]
            else:
                factors = self.factors(children)
                if factors is not None:
                    inputs = [pair(*map(layer, factors))]
                else:
                    inputs = [single([layer((q,)) for q in self.below[c]]) for c in children]
            made[nodes] = mixture(inputs, self.matrix(nodes))
            return made[nodes]

        return layer((0,))


def timed(run, rounds, least=0.0):
    """Median of CPU seconds of a call, over rounds of so many calls that they take at least so long, and its answer."""
    begin = time.process_time()
    run()
    run()
    n_calls = 1 + int(least / max(time.process_time() - begin, 1e-6))
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(n_calls):
            out = run()
        seconds.append((time.process_time() - begin) / n_calls)
    return float(np.median(seconds)), np.asarray(out, np.float64)


# Each engine: log densities of rows, and rows with their missing cells drawn given the others, as callables.


def ours_held(problem):
    """A circuit with its parameters: parameters are checked once, as the peers' are, and rows every time."""
    import pymc_spn as ps

    names = [f"x{d}" for d in range(problem.values.shape[1])]
    kind, below = problem.kind, problem.below
    circuit = ps.Circuit(
        kind, np.cumsum([0, *map(len, below)]), np.array([c for b in below for c in b]), problem.column,
        np.where(kind == LEAF, 0, -1), ("gaussian",), names,
    )  # fmt: skip
    logs = np.log(np.concatenate(list(problem.weight.values())))
    return circuit.with_parameters(logs, {"gaussian": np.array(list(problem.leaf.values()))})


def ours(problem):
    """Without the labels of answers, which the peers' have not either."""
    from pymc_spn.circuits.evaluation.completion import complete

    held = ours_held(problem)
    return held._given.log_density, lambda values: complete(held._given, values, np.random.default_rng(0))


def spflow(problem):
    """Modules of torch; missing cells are NaN."""
    import torch
    from spflow.modules.leaves import Normal
    from spflow.modules.products import OuterProduct, Product
    from spflow.modules.sums import Sum

    start_torch(torch)

    def leaves(column, mean, sd):
        as_channels = (torch.tensor(a).reshape(1, -1, 1) for a in (mean, sd))
        return Normal(column, out_channels=mean.size, **dict(zip(("loc", "scale"), as_channels, strict=True)))

    root = problem.build(
        leaves,
        lambda inputs, w: Sum(inputs, weights=torch.tensor(w)[None, :, :, None]),
        lambda a, b: OuterProduct([a, b]),
        Product,
    )
    without_gradient = torch.no_grad()
    return (
        without_gradient(lambda values: root.log_likelihood(torch.tensor(values)).ravel()),
        without_gradient(lambda values: root.sample(data=torch.tensor(values))),
    )


def cirkit(problem):
    """A symbolic circuit of layers, folded and optimised by the compiler; missing cells by its integration query."""
    import torch
    from cirkit.backend.torch.queries import IntegrateQuery
    from cirkit.pipeline import PipelineContext
    from cirkit.symbolic.circuit import Circuit
    from cirkit.symbolic.layers import GaussianLayer, HadamardLayer, KroneckerLayer, SumLayer
    from cirkit.symbolic.parameters import ConstantParameter, Parameter
    from cirkit.utils.scope import Scope

    start_torch(torch)
    layers, inputs_of = [], {}

    def constant(a):
        return Parameter.from_input(ConstantParameter(*a.shape, value=np.ascontiguousarray(a)))

    def put(new, *inputs):
        layers.append(new)
        if inputs:
            inputs_of[new] = list(inputs)
        return new

    def mixture(inputs, w):
        n_in, n_out = w.shape
        return put(SumLayer(n_in // len(inputs), n_out, len(inputs), weight=constant(w.T)), *inputs)

    root = problem.build(
        lambda column, mean, sd: put(
            GaussianLayer(Scope([column]), mean.size, mean=constant(mean), stddev=constant(sd))
        ),
        mixture,
        lambda a, b: put(KroneckerLayer(a.num_output_units), a, b),
        lambda inputs: put(HadamardLayer(1, len(inputs)), *inputs),
    )
    context = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True)
    query = IntegrateQuery(context.compile(Circuit(layers, inputs_of, [root])))

    @torch.no_grad()
    def log_density(values):
        missing = torch.tensor(np.isnan(values))
        return query(torch.tensor(np.nan_to_num(values)), integrate_vars=missing).ravel()

    return log_density, None  # no conditional draws


def deeprob(problem):
    """Node objects over NumPy arrays; missing cells are NaN."""
    from deeprob.spn.algorithms.inference import log_likelihood
    from deeprob.spn.algorithms.sampling import sample
    from deeprob.spn.structure.leaf import Gaussian
    from deeprob.spn.structure.node import Product, Sum, assign_ids

    nodes = {}
    for v in range(len(problem.kind) - 1, -1, -1):
        below = [nodes[c] for c in problem.below[v]]
        if problem.kind[v] == LEAF:
            nodes[v] = Gaussian(int(problem.column[v]), *problem.leaf[v])
        elif problem.kind[v] == SUM:
            nodes[v] = Sum(children=below, weights=problem.weight[v].astype(np.float64))
        else:
            nodes[v] = Product(children=below)
    root = assign_ids(nodes[0])
    return lambda values: log_likelihood(root, values).ravel(), lambda values: sample(root, values.copy())


def start_torch(torch):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)


ENGINES = {"ours": ours, "spflow": spflow, "cirkit": cirkit, "deeprob": deeprob}


# Each engine: probability of low <= x0 <= high and x5 <= most, or of the first given the second.


def ours_events(problem):
    held = ours_held(problem)

    def probability(low, high, most, is_given):
        first, second = {"x0": (low, high)}, {"x5": (None, most)}
        return held.probability(first, given=second) if is_given else held.probability(first | second)

    return probability


def sppl_events(problem):
    """Sum-product expressions; of two events given each other the ratio, which is quicker than `condition`."""
    from sppl.distributions import norm
    from sppl.sets import Interval
    from sppl.spe import ProductSPE, SumSPE
    from sppl.transforms import Identity

    symbols = [Identity(f"x{d}") for d in range(problem.values.shape[1])]
    nodes = {}
    for v in range(len(problem.kind) - 1, -1, -1):
        below = [nodes[c] for c in problem.below[v]]
        if problem.kind[v] == LEAF:
            mean, sd = problem.leaf[v]
            nodes[v] = norm(loc=mean, scale=sd)(symbols[problem.column[v]])
        elif problem.kind[v] == SUM:
            nodes[v] = SumSPE(below, np.log(problem.weight[v]).tolist())
        else:
            nodes[v] = ProductSPE(below)
    root = nodes[0]

    def probability(low, high, most, is_given):
        first, second = symbols[0] << Interval(low, high), symbols[5] << Interval(-np.inf, most)
        log_probability = root.logprob(first & second)
        return np.exp(log_probability - root.logprob(second) if is_given else log_probability)

    return probability


EVENTS = {"ours": ours_events, "sppl": sppl_events}


def answer_events(engine, path):
    """Median CPU seconds of an event that is asked alone, the answers, and of ours the time of one among all."""
    out = {}
    with np.load(path) as arrays:
        problem, events = Exported(dict(arrays)), arrays["events"]
    probability = EVENTS[engine](problem)
    for job, is_given in (("joint", False), ("conditional", True)):
        probability(*events[0].tolist(), is_given)
        seconds, found = [], []
        for event in events[:ASKED].tolist():
            begin = time.process_time()
            found.append(float(probability(*event, is_given)))
            seconds.append(time.process_time() - begin)
        out[job] = {"one": float(np.median(seconds)), "found": found}
        if engine == "ours":
            spent, together = timed(lambda given=is_given: probability(*events.T, given), 5)
            out[job] |= {"batch": spent / len(events), "together": together[:ASKED].tolist()}
    return out


def ours_mode():
    import pymc_spn as ps

    kind, ptr, children = np.array([SUM, LEAF, LEAF]), np.array([0, 2, 2, 2]), np.array([1, 2])
    circuit = ps.Circuit(kind, ptr, children, np.array([-1, 0, 0]), np.array([-1, 0, 0]), ("gaussian",), ["x"])
    theta = {"gaussian": np.array([[0.0, 5.0], [10.0, 0.1]])}
    return circuit.with_parameters(np.log([0.6, 0.4]), theta).mpe().value["x"].item()


def spflow_mode():
    import torch
    from spflow.modules.leaves import Normal
    from spflow.modules.sums import Sum

    start_torch(torch)
    loc, scale = (torch.tensor(a).reshape(1, 2, 1) for a in ([0.0, 10.0], [5.0, 0.1]))
    root = Sum(Normal(0, out_channels=2, loc=loc, scale=scale), weights=torch.tensor([0.6, 0.4])[None, :, None, None])
    return root.mpe(data=torch.tensor([[np.nan]])).detach().numpy()[0, 0]


def deeprob_mode():
    from deeprob.spn.algorithms.inference import mpe
    from deeprob.spn.structure.leaf import Gaussian
    from deeprob.spn.structure.node import Sum, assign_ids

    root = assign_ids(Sum(children=[Gaussian(0, 0.0, 5.0), Gaussian(0, 10.0, 0.1)], weights=np.array([0.6, 0.4])))
    return mpe(root, np.array([[np.nan]]))[0, 0]


def cirkit_mode():
    raise NotImplementedError("no query for it")


MODES = {"ours": ours_mode, "spflow": spflow_mode, "cirkit": cirkit_mode, "deeprob": deeprob_mode}


def answer(engine, path, rounds):
    """What a started process prints: seconds, log densities, means of draws and versions, or the mode, or the error."""
    try:
        other = "torch" if engine in DENSITIES else "scipy" if engine == "sppl" else "numba"
        packages = [*(PEERS[e] for e in [engine] if e in PEERS), other, "numpy"]
        out = {"versions": ", ".join(f"{p} {version(p)}" for p in packages), "python": sys.version.split()[0]}
        if engine == "sppl":
            return out | answer_events(engine, path)
        if path == "mode":
            return out | {"mode": float(MODES[engine]())}
        with np.load(path) as arrays:
            problem = Exported(dict(arrays))
        log_density, draw = ENGINES[engine](problem)
        out["seconds"], logs = timed(lambda: log_density(problem.values), rounds)
        out["one"], _ = timed(lambda: log_density(problem.values[:1]), rounds, LEAST)
        out["logs"] = logs.ravel().tolist()
        if draw is not None:
            out["draws"], rows = timed(lambda: draw(problem.values), rounds)
            out["means"] = np.where(np.isnan(problem.values), rows, 0.0).sum(axis=0).tolist()
        return out
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def environment(folder, interpreter, engines):
    """Interpreter of a virtual environment with these peers; made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
        wanted = [*(["torch"] if set(engines) & set(DENSITIES) else []), *(PEERS[e] for e in engines)]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        (folder / "complete").touch()
    return str(python)


def started(engine, python, path, given):
    """Run an engine in its environment, in one thread."""
    command = [python, __file__, "--engine", engine, str(path), "--rounds", str(given.rounds)]
    threads = {k: "1" for k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | threads, timeout=given.limit
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {given.limit} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def drawn(result, found, arrays):
    """Time of a row's draws, its ratio to ours, and how far sums over the rows are from exact conditional means."""
    if "draws" not in result:
        return [None, None, None]
    mine = np.mean([found[e]["draws"] for e in ("ours", "ours again")])
    is_missing = np.isnan(arrays["values"])
    variance = np.where(is_missing, np.diagonal(arrays["covariance"], axis1=1, axis2=2), 0.0).sum(axis=0)
    off = np.array(result["means"]) - np.where(is_missing, arrays["mean"], 0.0).sum(axis=0)
    return [1e6 * result["draws"] / len(is_missing), result["draws"] / mine, float(np.abs(off / variance**0.5).max())]


def rows_of_events(name, mine, theirs):
    """Rows of the table of events, ours and sppl's."""
    rows = []
    for job in ("joint", "conditional"):
        own, other = mine[job], theirs.get(job)
        apart = float(np.abs(np.subtract(own["found"], own["together"])).max())
        rows.append([name, "ours", job, 1e6 * own["one"], 1e6 * own["batch"], None, None, apart, ""])
        if other is None:
            rows.append([name, "sppl", job, *[None] * 5, theirs.get("error", "")[:200]])
            continue
        apart = float(np.abs(np.subtract(own["found"], other["found"])).max())
        ratios = other["one"] / own["one"], other["one"] / own["batch"]
        rows.append([name, "sppl", job, 1e6 * other["one"], None, *ratios, apart, ""])
    return rows


def problems(few, chosen):
    """(name, nodes, arrays) of the chosen circuits of `circuits_engine`, with at most so many rows."""
    from tests.benchmarks.circuits_engine import circuits
    from tests.shared_circuits import random_parameters

    for i, (name, circuit, n_rows) in enumerate(circuits()):
        if i not in chosen:
            continue
        rng = np.random.default_rng(0)
        log_weights, parameters = random_parameters(circuit, rng)
        values = rng.normal(size=(min(n_rows, few), 16))
        values[rng.random(values.shape) < 0.1] = np.nan
        moments = circuit.with_parameters(log_weights, parameters).moments(values)
        yield name, circuit.n_nodes, {
            "kind": circuit.kind, "child_ptr": circuit.child_ptr, "children": circuit.children,
            "column": circuit.leaf_column, "log_weights": log_weights, "parameters": parameters["gaussian"],
            "values": values, "mean": moments["mean"].values, "covariance": moments["covariance"].values,
            "events": np.sort(rng.normal(size=(N_EVENTS, 3)), axis=1)[:, [0, 2, 1]],
        }  # fmt: skip


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path, nargs="?", help="where the peers' environments are, or are made")
    arguments.add_argument("--interpreter", default=sys.executable, help="Python of environments that are made")
    arguments.add_argument("--sppl-interpreter", help="Python 3.10, for sppl; without it sppl is left out")
    arguments.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    arguments.add_argument("--circuits", nargs="+", type=int, default=[0, 1, 2], help="of the list in circuits_engine")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rows", type=int, default=10_000, help="at most so many rows")
    arguments.add_argument("--limit", type=float, default=120.0, help="seconds for one engine on one circuit")
    arguments.add_argument("--engine", help="(internal) ENGINE and problem FILE", nargs=2)
    given = arguments.parse_args()
    if given.engine:
        print(json.dumps(answer(*given.engine, given.rounds)))
        return
    from tests.benchmarks.report import machine, markdown_table

    if given.folder is None:
        arguments.error("a folder for the peers' environments is needed")
    if given.sppl_interpreter is None:
        given.peers = [e for e in given.peers if e != "sppl"]
    python = {}
    for name, engines in ENVIRONMENTS.items():
        if set(engines) & set(given.peers):
            interpreter = given.sppl_interpreter if engines == ("sppl",) else given.interpreter
            path = environment(given.folder.resolve() / name, interpreter, engines)
            python |= dict.fromkeys(engines, path)
    asked = [e for e in given.peers if e in DENSITIES]
    print(machine() + "\n\n### Log density\n", flush=True)
    rows, queries, events, versions = [], [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, n_nodes, arrays in problems(given.rows, given.circuits):
            path = Path(folder) / "problem.npz"
            np.savez(path, **arrays)
            found = {"ours": answer("ours", path, given.rounds)}
            found |= {e: started(e, python[e], path, given) for e in asked}
            found["ours again"] = answer("ours", path, given.rounds)
            if "error" in found["ours"]:
                raise RuntimeError(found["ours"]["error"])
            n_rows = len(arrays["values"])
            mine, one = (np.mean([found[e][job] for e in ("ours", "ours again")]) for job in ("seconds", "one"))
            for engine, result in found.items():
                if "error" in result:
                    rows.append([name, engine, n_rows, None, None, None, None, result["error"][:200]])
                    continue
                versions[engine] = f"{result['versions']} on Python {result['python']}"
                seconds = result["seconds"]
                difference = np.abs(np.array(result["logs"]) - np.array(found["ours"]["logs"])).max()
                rows.append(
                    [name, engine, n_rows, 1e6 * seconds / n_rows, 1e-6 * n_nodes * n_rows / seconds, seconds / mine,
                     float(difference), ""]
                )  # fmt: skip
                queries.append([name, engine, 1e6 * result["one"], result["one"] / one, *drawn(result, found, arrays)])
            if "sppl" in given.peers:
                theirs = started("sppl", python["sppl"], path, given)
                events += rows_of_events(name, answer_events("ours", path), theirs)
                if "error" not in theirs:
                    versions["sppl"] = f"{theirs['versions']} on Python {theirs['python']}"
    print(markdown_table(
        ["circuit", "engine", "rows", "us a row", "M node-rows/s", "ours / engine, node-rows/s", "largest difference",
         "error"], rows,
    ))  # fmt: skip
    print("### One row, and missing cells drawn given the observed ones\n")
    print(markdown_table(
        ["circuit", "engine", "one row's log density, us", "engine / ours", "draws, us a row", "engine / ours",
         "sum of drawn cells off the exact mean, standard errors, largest of the columns"], queries,
    ))  # fmt: skip
    if events:
        print("### Events\n")
        print(markdown_table(
            ["circuit", "engine", "question", "one event a call, us", f"one of {N_EVENTS:,} in a call, us",
             "one a call / ours", "one a call / one of ours in a call of all", "largest difference", "error"], events,
        ))  # fmt: skip
    print("### The most probable value of 0.6 N(0, sd 5) + 0.4 N(10, sd 0.1)\n")
    modes = []
    for engine in ["ours", *asked]:
        result = started(engine, python[engine], "mode", given) if engine in PEERS else answer(engine, "mode", 1)
        x = result.get("mode", np.nan)
        density = 0.6 / 5.0 * np.exp(-0.5 * (x / 5.0) ** 2) + 0.4 / 0.1 * np.exp(-0.5 * ((x - 10.0) / 0.1) ** 2)
        log_density = float(np.log(density) - 0.5 * np.log(2.0 * np.pi))
        modes.append([engine, x, log_density, result.get("error", "")[:200]])
    print(markdown_table(["engine", "answer", "its log density", "error"], modes))
    print("; ".join(f"{engine}: {text}" for engine, text in versions.items() if engine != "ours again"))


if __name__ == "__main__":
    main()
