"""All marginals of evidence rows: ours against pgmpy and pyAgrum, which live in an environment of their own.

    python -m tests.benchmarks.factor_graphs_peers DATA --peer-python PEER/bin/python

DATA holds bn_alarm.json. The script starts itself in the peers' environment, one library at a time, and alternates
with its own rounds. CPU time of a round divided by its rows; medians over rounds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def chain(n, k, rng):
    """Bayesian network of a chain: every step of the chain has its own transition table."""
    names = [f"z{t}" for t in range(n)]
    tables = {"z0": rng.dirichlet(np.ones(k)).tolist()}
    tables |= {names[t]: rng.dirichlet(np.ones(k), size=k).tolist() for t in range(1, n)}
    return {
        "states": {v: [f"s{i}" for i in range(k)] for v in names},
        "parents": {names[t]: [names[t - 1]] if t else [] for t in range(n)},
        "cpt": tables,
    }


def ours(problem, rounds):
    """Seconds a row (all marginals, from DataFrame to labelled arrays), kernel alone, and the marginals."""
    import pandas as pd

    import pymc_spn as ps
    from pymc_spn.factor_graphs.passes import run

    net = problem["net"]
    fg = ps.FactorGraph.from_bayesian_network(net["states"], net["parents"], net["cpt"])
    tree = fg.compile()
    frame = pd.DataFrame(problem["evidence"])
    tree.infer(frame)
    whole, kernel, log_z, gradient = [], [], [], []
    potentials = fg.potentials()[None]
    for _ in range(rounds):
        begin = time.process_time()
        r = tree.infer(frame)
        marginals = r.marginals()
        whole.append(time.process_time() - begin)
        for store, wanted in ((kernel, {"marginals": True}), (log_z, {}), (gradient, {"gradient": True})):
            begin = time.process_time()
            for _ in range(5):
                run(tree.plan, potentials, r.evidence.codes, r.evidence.soft, len(frame), **wanted)
            store.append((time.process_time() - begin) / 5)
    n = len(frame)
    return {
        "row": np.median(whole) / n,
        "kernel": np.median(kernel) / n,
        "log_z": np.median(log_z) / n,
        "gradient": np.median(gradient) / n,
        "marginals": {v: m.values[: problem["peer_rows"]].tolist() for v, m in marginals.items()},
    }


def pgmpy(problem, rounds):
    """Variable elimination of all hidden marginals; for chains also the calibration of a junction tree."""
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import BeliefPropagation, VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork

    net = problem["net"]
    model = DiscreteBayesianNetwork([(p, v) for v, ps in net["parents"].items() for p in ps])
    for v, states in net["states"].items():
        table = np.array(net["cpt"][v])
        model.add_cpds(
            TabularCPD(
                v,
                len(states),
                table.reshape(-1, len(states)).T,
                evidence=net["parents"][v] or None,
                evidence_card=[len(net["states"][p]) for p in net["parents"][v]] or None,
                state_names={u: net["states"][u] for u in (v, *net["parents"][v])},
            )
        )
    engine = VariableElimination(model)
    hidden = [v for v in net["states"] if v not in problem["evidence"]]
    times, found = [], {v: [] for v in hidden}
    for i in range(problem["peer_rows"]):
        row = {v: column[i] for v, column in problem["evidence"].items()}
        begin = time.process_time()
        for v in hidden:
            result = engine.query([v], evidence=row, show_progress=False)
            found[v].append(result)
        times.append(time.process_time() - begin)
    out = {"row": np.median(times), "marginals": {v: [f.values.tolist() for f in fs] for v, fs in found.items()}}
    if problem["name"] == "chain":
        begin = time.process_time()
        BeliefPropagation(model).calibrate()
        out["calibrate"] = time.process_time() - begin
    return out


def pyagrum(problem, rounds):
    """Lazy propagation (C++), evidence changed row by row, all posteriors read."""
    import pyagrum as gum

    net = problem["net"]
    bn = gum.BayesNet("net")
    for v, states in net["states"].items():
        bn.add(gum.LabelizedVariable(v, v, list(states)))
    for v, parents in net["parents"].items():
        for p in parents:
            bn.addArc(p, v)
    for v, states in net["states"].items():
        table = np.array(net["cpt"][v])
        parents = net["parents"][v]
        if not parents:
            bn.cpt(v)[:] = table.tolist()
        for at in np.ndindex(*table.shape[:-1]) if parents else ():
            bn.cpt(v)[dict(zip(parents, (int(i) for i in at), strict=True))] = table[at].tolist()
        assert bn.cpt(v).domainSize() == table.size == len(states) * (table.size // len(states))
    engine = gum.LazyPropagation(bn)
    columns = {v: [net["states"][v].index(s) for s in column] for v, column in problem["evidence"].items()}
    for v, codes in columns.items():
        engine.addEvidence(v, codes[0])
    names = list(net["states"])
    times, found = [], None
    n = min(problem["agrum_rows"], len(next(iter(columns.values()))))
    for _ in range(rounds):
        found = {v: [] for v in names}
        begin = time.process_time()
        for i in range(n):
            for v, codes in columns.items():
                engine.chgEvidence(v, codes[i])
            engine.makeInference()
            for v in names:
                posterior = engine.posterior(v)
                if i < problem["peer_rows"]:
                    found[v].append(posterior)
        times.append((time.process_time() - begin) / n)
    out = {v: [p.tolist() for p in ps] for v, ps in found.items()}
    return {"row": np.median(times), "marginals": out}


ENGINES = {"ours": ours, "pgmpy": pgmpy, "pyagrum": pyagrum}


def problems(data, n_rows):
    """Alarm with half the leaves observed, a chain of 100 variables with 10 states with half of them observed."""
    import pymc_spn as ps

    rng = np.random.default_rng(0)
    alarm = json.loads((Path(data) / "bn_alarm.json").read_text(encoding="utf-8"))
    leaves = [v for v in alarm["states"] if all(v not in p for p in alarm["parents"].values())]
    line = chain(100, 10, rng)
    every_other = sorted(rng.permutation(list(line["states"]))[:50].tolist())
    for name, net, seen in (("alarm", alarm, leaves[::2]), ("chain", line, every_other)):
        fg = ps.FactorGraph.from_bayesian_network(net["states"], net["parents"], net["cpt"])
        drawn = fg.compile().infer().sample(n_rows, random_seed=1)
        yield {
            "name": name,
            "net": net,
            "evidence": {v: drawn.sel(variable=v).values.tolist() for v in seen},
            "peer_rows": 5,
            "agrum_rows": 100,
        }


def largest_difference(a, b):
    """Over the variables and rows that both have."""
    return max(np.max(np.abs(np.array(a[v][: len(b[v])]) - np.array(b[v]))) for v in b if v in a and b[v])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data", nargs="?")
    arguments.add_argument("--peer-python")
    arguments.add_argument("--rows", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--engine", help="(internal) ENGINE and problem FILE", nargs=2)
    given = arguments.parse_args()
    if given.engine:
        engine, path = given.engine
        problem = json.loads(Path(path).read_text(encoding="utf-8"))
        print(json.dumps(ENGINES[engine](problem, given.rounds), default=float))
        return
    from tests.benchmarks.report import machine, markdown_table

    print(machine() + "\n")
    for problem in problems(given.data, given.rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "problem.json"
            path.write_text(json.dumps(problem), encoding="utf-8")
            results = {}
            for name, python in (
                ("ours", sys.executable),
                ("pyagrum", given.peer_python),
                ("pgmpy", given.peer_python),
                ("ours again", sys.executable),
            ):
                command = [python, __file__, "--engine", name.split()[0], str(path), "--rounds", str(given.rounds)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(done.stderr[-2000:])
                results[name] = json.loads(done.stdout.splitlines()[-1])
        mine = np.mean([results[n]["row"] for n in ("ours", "ours again")])
        rows = [
            [name, 1e6 * r["row"], r["row"] / mine, largest_difference(results["ours"]["marginals"], r["marginals"])]
            for name, r in results.items()
        ]
        if "calibrate" in results["pgmpy"]:
            t = results["pgmpy"]["calibrate"]
            rows.append(["pgmpy, calibration alone, no evidence", 1e6 * t, t / mine, float("nan")])
        print(f"### {problem['name']}\n")
        print(markdown_table(["engine", "µs a row", "times ours", "largest difference"], rows))
        kernel = results["ours again"]
        names = ("kernel", "log_z", "gradient")
        print(
            markdown_table(
                ["part of ours", "µs a row", "times log Z"],
                [[n, 1e6 * kernel[n], kernel[n] / kernel["log_z"]] for n in names],
            )
        )


if __name__ == "__main__":
    main()
