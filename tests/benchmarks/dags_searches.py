"""Searches for one graph beside posteriors: BOSS and GES of causal-learn, hill climbing of pgmpy, and this package.

Peers run in an environment of their own, with NumPy and ``pip install causal-learn pgmpy``; what they found is kept in
OUT, and what is there is not run again. Then this package runs, and all are judged by the same figures.

    python dags_searches.py OUT DATA --peer boss --cases 20 37 64 100 alarm child --seeds 0 1 2
    python -m tests.benchmarks.dags_searches OUT DATA --cases 20 37 64 100 alarm child --seeds 0 1 2

A number is a linear Gaussian network of so many variables and 1,000 rows (`dags_problem`), a name a discrete network of
DATA and 1,000 rows. A graph's edge counts 1 one way, and one half both ways where it may be turned, which areas under
curves of edges need.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROWS = 1000
PEERS = "boss", "ges", "hill climbing"
METHODS = (*PEERS, "edge probabilities", "consensus", "most probable graph")


def problem(case, seed, folder):
    """Names, levels (None for numbers), rows, and the true graph."""
    try:
        from tests.benchmarks.dags_problem import discrete, simulated
    except ImportError:  # a peer's environment
        sys.path.insert(0, str(Path(__file__).parent))
        from dags_problem import discrete, simulated
    if case.isdigit():
        known = simulated(int(case), seed, ROWS)
        return [f"v{i}" for i in range(int(case))], None, known.train, known.graph
    return discrete(folder, case, ROWS, seed)


def by_causal_learn(search, rows, levels):
    """(d, d) bool: the class of the graph that a search of causal-learn finds."""
    if search == "boss":
        from causallearn.search.PermutationBased.BOSS import boss

        found = boss(rows.astype(float), "local_score_BDeu" if levels else "local_score_BIC_from_cov", verbose=False)
        ends = found.graph
    else:
        from causallearn.search.ScoreBased.GES import ges

        ends = ges(rows.astype(float), "local_score_BDeu" if levels else "local_score_BIC_from_cov")["G"].graph
    # -1 is a tail, 1 an arrowhead, at [i, j] the end at i of the edge between i and j
    return (ends == -1) & ((ends.T == 1) | (ends.T == -1))


def by_pgmpy(names, rows, levels):
    """As `by_causal_learn`, by hill climbing over graphs; a class by the v-structures and Meek's rules of pgmpy."""
    import pandas as pd
    from pgmpy.estimators import HillClimbSearch

    frame = pd.DataFrame(rows, columns=names)
    score = "bdeu" if levels else "bic-g"
    if levels:
        frame = pd.DataFrame({n: pd.Categorical(np.array(levels[n])[codes]) for n, codes in zip(names, rows.T)})  # noqa: B905
    dag = HillClimbSearch(frame).estimate(scoring_method=score, show_progress=False)
    return np.array([[dag.has_edge(a, b) for b in names] for a in names]), True


def run_peer(given):
    folder = Path(given.out)
    folder.mkdir(parents=True, exist_ok=True)
    for case in given.cases:
        for seed in given.seeds:
            path = folder / f"{given.peer.replace(' ', '_')}_{case}_{seed}.npz"
            if path.exists():
                continue
            names, levels, rows, _ = problem(case, seed, given.data)
            start = time.process_time()
            if given.peer == "hill climbing":
                graph, is_dag = by_pgmpy(names, rows, levels)
            else:
                graph, is_dag = by_causal_learn(given.peer, rows, levels), False
            np.savez(path, graph=graph, seconds=time.process_time() - start, is_dag=is_dag)
            print(given.peer, case, seed, f"{time.process_time() - start:.1f} s", flush=True)


def distance(one, other):
    """Pairs of variables that two classes join otherwise."""
    differs = (one != other) | (one.T != other.T)
    return int(np.triu(differs).sum())


def judged(found, truth, is_class):
    """AUROC and average precision of edges, and the distance between classes (None of probabilities)."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    from pymc_spn.dags.dag import to_cpdags

    apart = ~np.eye(len(truth), dtype=bool)
    values = np.where(found & found.T, 0.5, found) if is_class else found
    areas = roc_auc_score(truth[apart], values[apart]), average_precision_score(truth[apart], values[apart])
    return (*areas, distance(found, to_cpdags(truth[None])[0]) if is_class else np.nan)


def ours(case, seed, folder):
    """What this package answers: by method, a matrix and the CPU seconds up to it."""
    import pandas as pd

    import pymc_spn as ps

    names, levels, rows, truth = problem(case, seed, folder)
    frame = pd.DataFrame(rows, columns=names)
    if levels:
        frame = pd.DataFrame({n: np.array(levels[n])[codes] for n, codes in zip(names, rows.T, strict=True)})
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of units, which differ here
        post = ps.DagPosterior.from_data(frame, random_seed=seed, progressbar=False)
    found = {}
    for method, ask in (
        ("edge probabilities", lambda: post.edge_probabilities().values),
        ("consensus", lambda: post.consensus().cpdag().adjacency),
        ("most probable graph", lambda: post.most_probable().graph.cpdag().adjacency),
    ):
        made = time.process_time() - start
        begin = time.process_time()
        found[method] = ask(), made + time.process_time() - begin, method != "edge probabilities"
        start += time.process_time() - begin  # each from the table on, alone
    return truth, found


def compare(given):
    from pymc_spn.dags.dag import to_cpdags
    from tests.benchmarks.report import machine, markdown_table

    rows = []
    ours("37", 9, given.data)  # compiles
    for case in given.cases:
        figures = {method: [] for method in METHODS}
        for seed in given.seeds:
            truth, found = ours(case, seed, given.data)
            for peer in PEERS:
                path = Path(given.out) / f"{peer.replace(' ', '_')}_{case}_{seed}.npz"
                if path.exists():
                    kept = np.load(path)
                    graph = to_cpdags(kept["graph"][None])[0] if kept["is_dag"] else kept["graph"]
                    found[peer] = graph, float(kept["seconds"]), True
            for method, (matrix, seconds, is_class) in found.items():
                figures[method].append((*judged(matrix, truth, is_class), seconds))
        for method, values in figures.items():
            if values:
                auroc, precision, away, seconds = np.mean(values, axis=0)
                apart = "–" if np.isnan(away) else f"{away:.1f}"
                cells = f"{auroc:.3f}", f"{precision:.3f}", apart, f"{seconds:.3g}", str(len(values))
                rows.append([case, method, *cells])
        print(rows[-len(METHODS) :], flush=True)
    header = ["network", "method", "AUROC", "average precision", "distance of classes", "CPU s", "sets"]
    print("\n" + machine() + "\n\n" + markdown_table(header, rows))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out")
    arguments.add_argument("data")
    arguments.add_argument("--peer", choices=PEERS)
    arguments.add_argument("--cases", nargs="+", default=["20", "37", "64", "100", "alarm", "child"])
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = arguments.parse_args()
    if given.peer:
        run_peer(given)
    else:
        compare(given)


if __name__ == "__main__":
    main()
