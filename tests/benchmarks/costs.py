"""What the default table model costs by rows, columns, draws, threads and workers; its memory beside it.

    python -m tests.benchmarks.costs COSTS.jsonl --parts rows columns draws threads workers parquet
    python -m tests.benchmarks.costs COSTS.jsonl --report

Tables are simulated: twelve clusters, and of each ten columns six are correlated numbers, one is a count, one a scale,
one a flag and one a category. Two of them have gaps, a tenth of their cells. Each figure comes from a process of its
own, which first does the same with a small table, so that nothing is compiled in what is measured. CPU seconds are of
all threads, memory is the peak beyond what the process held before, in megabytes. A slope is that of the logs, to the
line above: 1 is proportional. A result that the file holds is not worked out again.

``parquet`` fits files that no process reads as a whole; ``--rows`` says how many rows, 10 million by default.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import logsumexp

import pymc_spn as ps
from tests.benchmarks.report import QUIET, Store, markdown_table

CLUSTERS, BLOCK, GAPS = 12, 10, 0.1
ROWS, COLUMNS, DRAWS = (1_000, 10_000, 100_000, 1_000_000), (5, 20, 80, 300), (10, 100, 1_000)
KEY = ("part", "what", "size")
WHATS = {
    "rows": ("fit", "sweep", "density"),
    "columns": ("fit", "sweep", "density"),
    "draws": ("density",),
    "threads": ("fit", "density"),
    "workers": ("chains", "density of partitions"),
}
SIZES = {"rows": ROWS, "columns": COLUMNS, "draws": DRAWS, "threads": (1, 2), "workers": (1, 2)}
SWEPT = 100_000  # rows above which no sweeps are timed


class Simulated:
    """The distribution of the tables: `n` of its rows, and their log densities.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns):
        rng = np.random.default_rng(99)
        self.n_columns, self.n_blocks = n_columns, -(-n_columns // BLOCK)
        self.share = rng.dirichlet(np.full(CLUSTERS, 3.0))
        shape = self.n_blocks, CLUSTERS
        self.centre = rng.normal(0.0, 2.0, (*shape, 6))
        factor = rng.normal(0.0, 0.35, (*shape, 6, 6))
        factor[..., np.arange(6), np.arange(6)] = rng.uniform(0.4, 1.0, (*shape, 6))
        self.factor = np.linalg.cholesky(factor @ factor.swapaxes(-1, -2))
        self.rate = rng.gamma(2.0, 3.0, shape)
        self.scale = rng.gamma(2.0, 1.0, shape)
        self.flag = rng.beta(1.0, 1.0, shape)
        self.level = rng.dirichlet(np.full(5, 0.6), shape)

    def rows(self, n, seed):
        """The table as a DataFrame."""
        rng = np.random.default_rng(seed)
        cluster = rng.choice(CLUSTERS, n, p=self.share)
        columns = {}
        for b in range(self.n_blocks):
            normal = rng.normal(size=(n, 6))
            number = self.centre[b, cluster] + np.einsum("nij,nj->ni", self.factor[b, cluster], normal)
            for i in range(6):
                columns[f"number_{b}_{i}"] = number[:, i]
            columns[f"count_{b}"] = pd.array(rng.poisson(self.rate[b, cluster]), "Int64")
            columns[f"scale_{b}"] = rng.gamma(2.0, self.scale[b, cluster])
            columns[f"flag_{b}"] = rng.random(n) < self.flag[b, cluster]
            code = (rng.random((n, 1)) > self.level[b].cumsum(1)[cluster]).sum(1).clip(0, 4)
            columns[f"level_{b}"] = pd.Categorical.from_codes(code, list("abcde"))
            columns[f"number_{b}_1"][rng.random(n) < GAPS] = np.nan
            columns[f"count_{b}"][rng.random(n) < GAPS] = pd.NA
        return pd.DataFrame(columns).iloc[:, : self.n_columns]

    def log_density(self, frame):
        """Mean log density of rows, in nats; for a number of columns that is a multiple of ten."""
        logs = np.broadcast_to(np.log(self.share), (len(frame), CLUSTERS)).copy()
        for b in range(self.n_blocks):
            number = frame[[f"number_{b}_{i}" for i in range(6)]].to_numpy()
            gap = np.isnan(number[:, 1])
            kept = [i for i in range(6) if i != 1]
            count = frame[f"count_{b}"].to_numpy(np.float64, na_value=np.nan)
            for c in range(CLUSTERS):
                cov = self.factor[b, c] @ self.factor[b, c].T
                whole = stats.multivariate_normal(self.centre[b, c], cov)
                rest = stats.multivariate_normal(self.centre[b, c][kept], cov[np.ix_(kept, kept)])
                logs[~gap, c] += whole.logpdf(number[~gap])
                logs[gap, c] += rest.logpdf(number[gap][:, kept])
                logs[:, c] += np.where(
                    np.isnan(count), 0.0, stats.poisson.logpmf(np.nan_to_num(count), self.rate[b, c])
                )
                logs[:, c] += stats.gamma.logpdf(frame[f"scale_{b}"], 2.0, scale=self.scale[b, c])
                logs[:, c] += np.log(np.where(frame[f"flag_{b}"], self.flag[b, c], 1.0 - self.flag[b, c]))
                logs[:, c] += np.log(self.level[b, c])[frame[f"level_{b}"].cat.codes]
        return float(logsumexp(logs, axis=1).mean())


def memory():
    """Memory of this process, in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class Watch:
    """Wall and CPU seconds of a block, and how far memory rose within it."""

    def __enter__(self):
        self.before = self.peak = memory()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def look(self):
        while not self.ended.wait(0.02):
            self.peak = max(self.peak, memory())

    def __exit__(self, *_):
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        self.ended.set()
        self.thread.join()
        self.found = {"wall": self.wall, "cpu": self.cpu, "megabytes": self.peak - self.before}


def fitted(frame):
    return ps.fit_variational(frame, random_seed=1, progressbar=False)


def sampled(frame, draws, tune=0, seed=1):
    """A chain of the default model."""
    import pymc as pm

    with pm.Model():
        ps.SPN("rows", observed=frame)
        return pm.sample(draws, tune=tune, chains=1, random_seed=seed, quiet=True, **QUIET)


def a_posterior(n_columns, draws, n_rows=2_000):
    idata = sampled(Simulated(n_columns).rows(n_rows, 1), draws)
    return ps.SPNPosterior.from_idata(idata, max_draws=None)


def timed_sweeps(frame):
    """Of one sweep: the difference of two runs of one start, so that the start and the records do not count."""
    few, many = (10, 210) if frame.size <= 50_000 else (3, 13) if frame.size <= 1_000_000 else (2, 5)
    found = {}
    for sweeps in (few, many):
        with Watch() as watch:
            sampled(frame, sweeps)
        found[sweeps] = watch.found
    one = {kind: (found[many][kind] - found[few][kind]) / (many - few) for kind in ("wall", "cpu")}
    return one | {"megabytes": found[many]["megabytes"]}


def chains_on_workers(n_workers):
    """Four chains on workers, whose first run has compiled what they need."""
    from distributed import Client, LocalCluster

    def build():
        import pymc as pm

        with pm.Model() as model:
            ps.SPN("rows", observed=frame)
        return model

    frame = Simulated(10).rows(2_000, 1)
    run = {"chains": 4, "random_seed": 1, "progressbar": False}
    with LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            ps.sample_chains(build, client=client, draws=2, tune=2, **run)
            with Watch() as watch:
                ps.sample_chains(build, client=client, draws=50, tune=50, **run)
    return watch.found


def partitions_on_workers(n_workers):
    """Log densities of 200,000 rows in ten partitions, under 100 draws."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    post, frame = a_posterior(10, 100), Simulated(10).rows(200_000, 2)
    with LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster):
            post.log_density(dd.from_pandas(frame[:1_000], npartitions=2)).compute()
            with Watch() as watch:
                post.log_density(dd.from_pandas(frame, npartitions=10)).compute()
    return watch.found


def measure(part, what, size):
    """One record."""
    n_rows = {"rows": size, "threads": 20_000}.get(part, 2_000)
    n_columns = size if part == "columns" else 10
    table = Simulated(n_columns)
    if what == "chains":
        return chains_on_workers(size)
    if what == "density of partitions":
        return partitions_on_workers(size)
    small = Simulated(10).rows(min(n_rows, 10_000), 3)  # larger tables run what this one does
    jobs = size if part == "threads" else 1
    with ps.parallel_config(n_jobs=jobs):
        if what == "fit":
            fitted(small)
            frame = table.rows(n_rows, 1)
            with Watch() as watch:
                fitted(frame)
            return watch.found
        if what == "sweep":
            sampled(small, 3)
            return timed_sweeps(table.rows(n_rows, 1))
        post = a_posterior(n_columns, size if part == "draws" else 100)
        frame = table.rows(100_000 if part == "threads" else n_rows, 2)
        post.log_density(frame[:200])
        with Watch() as watch:
            post.log_density(frame)
        return watch.found


def parquet(n_rows):
    """A fit to files of 250,000 rows each, held-out density, and that of a chain on 20,000 rows."""
    table, test = Simulated(10), Simulated(10).rows(20_000, 10**6)
    with tempfile.TemporaryDirectory() as folder:
        for k in range(math.ceil(n_rows / 250_000)):
            rows = min(250_000, n_rows - 250_000 * k)
            table.rows(rows, 10 + k).to_parquet(f"{folder}/{k:04d}.parquet")
        with Watch() as watch:
            fit = ps.fit_variational(folder, random_seed=1, progressbar=False)
    found = watch.found | {"held out": float(fit.log_density(test).mean()), "truth": table.log_density(test)}
    chain = ps.SPNPosterior.from_idata(sampled(table.rows(20_000, 10), 100, tune=100))
    return found | {"chain": float(chain.log_density(test).mean())}


def report(store):
    """A Markdown table for each part."""
    for part in (*WHATS, "parquet"):
        rows = []
        for what in WHATS.get(part, ("fit",)):
            before = None
            for size in sorted(s for p, w, s in store.records if (p, w) == (part, what)):
                r = store.records[part, what, size]
                seconds = r["wall" if part in ("threads", "workers") else "cpu"]
                slope = "" if before is None else f"{math.log(seconds / before[1]) / math.log(size / before[0]):.2f}"
                held = "" if part == "workers" else f"{r['megabytes']:.0f}"
                rows.append([what, f"{size:,}", f"{seconds:.3g}", slope, held])
                before = size, seconds
                if part == "parquet":
                    print({k: round(v, 3) for k, v in r.items() if isinstance(v, float)})
        if rows:
            unit = "seconds" if part in ("threads", "workers") else "CPU seconds"
            print(f"\n{part}\n\n" + markdown_table(["what", part, unit, "slope", "MB"], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="results, as JSON lines")
    parser.add_argument("--parts", nargs="+", default=list(WHATS), choices=[*WHATS, "parquet"])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the parquet files")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--one", nargs=3, help="part, what and size; prints one record")
    own = parser.parse_args()
    if own.one:
        part, what, size = own.one
        print(json.dumps(parquet(int(size)) if part == "parquet" else measure(part, what, int(size))))
        return
    store = Store(own.out, KEY)
    if own.report:
        report(store)
        return
    for part in own.parts:
        for what in WHATS.get(part, ("fit",)):
            for size in SIZES.get(part, (own.rows,)):
                if (part, what, size) in store or (part == "rows" and what == "sweep" and size > SWEPT):
                    continue
                command = [sys.executable, "-m", "tests.benchmarks.costs", own.out, "--one", part, what, str(size)]
                own_threads = {"NUMBA_NUM_THREADS": "1"} if part == "workers" else {}  # a worker would take all cores
                done = subprocess.run(
                    command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | own_threads
                )
                store.add((part, what, size), json.loads(done.stdout.splitlines()[-1]))
                print(part, what, size, store.records[part, what, size], flush=True)


if __name__ == "__main__":
    main()
