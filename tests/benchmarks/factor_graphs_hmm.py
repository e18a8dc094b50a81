"""Hidden Markov model in PyMC: one value and gradient, ours against pymc-extras, and how long compiling takes.

    python -m tests.benchmarks.factor_graphs_hmm --peer-python PEER/bin/python

pymc-extras pins an older PyMC and lives in an environment of its own; the script starts itself there. Same model, same
data, same point; CPU time, medians over rounds; compile caches are empty at the start of every run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np


def data(n_rows, n_steps, n_states):
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.random((n_rows, n_steps)) < 0.1, axis=1) % n_states
    return 2.0 * z + rng.normal(size=z.shape)


def ours(y, k):
    import pymc as pm
    import pytensor.tensor as pt

    import pymc_spn as ps

    with pm.Model() as model:
        mu = pm.Normal("mu", 2.0 * np.arange(k), 1.0, shape=k)
        transition = pm.Dirichlet("P", np.full((k, k), 2.0))
        fg = ps.FactorGraph.hmm(y.shape[1], np.full(k, -np.log(k)), pt.log(transition))
        ps.FieldEmission("y", ps.DiscreteField("z", fg), components={"y": pm.Normal.dist(mu, 1.0)}, observed={"y": y})
    return model


def extras(y, k):
    import pymc as pm
    import pymc_extras as pmx

    with pm.Model() as model:
        mu = pm.Normal("mu", 2.0 * np.arange(k), 1.0, shape=k)
        transition = pm.Dirichlet("P", np.full((k, k), 2.0))
        start = pm.Categorical.dist(p=np.full(k, 1 / k))
        chain = pmx.DiscreteMarkovChain("z", P=transition, init_dist=start, shape=y.shape)
        pm.Normal("y", mu[chain], 1.0, observed=y)
    return pmx.marginalize(model, ["z"])


MODELS = {"ours": ours, "extras": extras}


def measure(engine, n_rows, n_steps, n_states, rounds):
    import pymc as pm

    y = data(n_rows, n_steps, n_states)
    wall, cpu = time.perf_counter(), time.process_time()
    model = MODELS[engine](y, n_states)
    f = model.logp_dlogp_function(ravel_inputs=True)
    f.set_extra_values({})
    x = pm.blocking.DictToArrayBijection.map(model.initial_point()).data
    value, gradient = f(x)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    times = []
    repeats = 20 if n_rows * n_steps < 10_000 else 5
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(repeats):
            f(x)
        times.append((time.process_time() - begin) / repeats)
    return {
        "value": float(value),
        "gradient": np.asarray(gradient).tolist(),
        "seconds": float(np.median(times)),
        "compile_wall": wall,
        "compile_cpu": cpu,
        "pymc": pm.__version__,
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--peer-python")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--limit", type=int, default=900, help="seconds after which a run counts as not finished")
    arguments.add_argument("--engine", nargs=4, help="(internal) ENGINE ROWS STEPS STATES")
    given = arguments.parse_args()
    if given.engine:
        name, *shape = given.engine
        print(json.dumps(measure(name, *map(int, shape), given.rounds)))
        return
    from tests.benchmarks.report import machine, markdown_table

    print(machine() + "\n")
    rows = []
    for shape in ((20, 200, 4), (1, 10_000, 4)):
        results = {}
        for name, python in (("ours", sys.executable), ("extras", given.peer_python)):
            with tempfile.TemporaryDirectory() as cache:
                flags = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={cache}", "NUMBA_CACHE_DIR": cache}
                command = [python, __file__, "--rounds", str(given.rounds), "--engine", name, *map(str, shape)]
                try:
                    done = subprocess.run(command, capture_output=True, text=True, env=flags, timeout=given.limit)
                    results[name] = json.loads(done.stdout.splitlines()[-1])
                except subprocess.TimeoutExpired:
                    results[name] = None
                except IndexError:
                    raise RuntimeError(done.stderr[-3000:]) from None
        base = results["ours"]
        for name, r in results.items():
            if r is None:
                rows.append([f"{shape}", f"{name}: not finished in {given.limit} s", *[float("nan")] * 6])
                continue
            rows.append(
                [
                    f"{shape}",
                    f"{name}, PyMC {r['pymc']}",
                    1e3 * r["seconds"],
                    r["seconds"] / base["seconds"],
                    r["compile_cpu"],
                    r["compile_wall"],
                    abs(r["value"] - base["value"]) / abs(base["value"]),
                    float(np.max(np.abs(np.array(r["gradient"]) - base["gradient"]))),
                ]
            )
    header = ["rows, steps, states", "engine", "ms a value and gradient", "times ours", "compile, CPU s"]
    print(markdown_table([*header, "compile, wall s", "relative difference", "difference of gradient"], rows))


if __name__ == "__main__":
    main()
