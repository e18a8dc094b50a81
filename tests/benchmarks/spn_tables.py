"""The tables of Yokoi and Sato (2024) made anew: resumable runs into a store of JSON lines, and a report from it.

    python -m tests.benchmarks.spn_tables run DATA STORE --what samplers --seconds 20 --seeds 0 1 2
    python -m tests.benchmarks.spn_tables run DATA STORE --what settings --seconds 20 --seeds 0 1 2
    python -m tests.benchmarks.spn_tables report DATA STORE

A run that the store holds already is not repeated, so an interrupted command goes on where it stopped when it is given
again. ``samplers``: the default kernel, the published one, bottom-up and collapsed variational Bayes with the same
fixed leaf priors, the same k-means start and CPU seconds. ``settings``: the default kernel with all hyperparameters
learned on structures of several widths and splits, of which the report takes the best on validation rows. Data are
prepared by `table_rules`. Other models stand in `tables_side_by_side`.
"""

import argparse
import time

from pymc_spn.circuits.structures.region_trees import complete_tree
from tests.benchmarks.paper_tables import SETS
from tests.benchmarks.report import Store, processor
from tests.benchmarks.table_rules import prepare
from tests.benchmarks.table_runs import (
    MAX_CELLS,
    STATES,
    STRUCTURES,
    palettes_of,
    sample,
    structure_of,
    vary,
)

SAMPLERS = ("exact", "bottom_up", "published", "variational")
KEY = ("set", "width", "sampler", "seed", "seconds")


def wanted(options):
    """Keys in the order of work: whole sets first, and all seeds of a set together."""
    for name in options.sets:
        for seed in options.seeds:
            if "samplers" in options.what:
                yield from (
                    (name, str(w), s, seed, options.seconds) for w in options.children for s in options.samplers
                )
            if "settings" in options.what:
                yield from ((name, w, "learned", seed, options.seconds) for w in options.settings)


def carry_out(options, key):
    """Result of one key; a dict with the reason where the run is impossible."""
    name, width, sampler, seed, seconds = key
    prepared = prepare(options.data, name, seed)
    if sampler == "learned":
        structure = structure_of(width, prepared.train, seed)
        if structure is None:
            return {"skipped": "too many columns for a split of each product"}
        train, leaves = palettes_of(width, prepared.train)
        if train is None:
            return {"skipped": "no column to which the setting applies"}
        return sample(prepared._replace(train=train), structure, "exact", seed, seconds, learned=True, leaves=leaves)
    structure = complete_tree(prepared.train.columns, n_children=int(width))
    if sampler == "variational":
        return vary(prepared, structure, seed, seconds)
    if sampler == "published" and structure.n_sum_nodes() * len(prepared.train.values) > MAX_CELLS:
        return {"skipped": "a state for every row and sum node does not fit"}
    return sample(prepared, structure, sampler, seed, seconds, n_states=options.states)


def run(options):
    """Do what the store lacks."""
    store = Store(options.store, KEY)
    for key in wanted(options):
        if key in store:
            continue
        begin = time.process_time()
        result = carry_out(options, key)
        store.add(key, {**result, "whole": time.process_time() - begin, "processor": processor()})
        shown = result.get("test", result.get("skipped"))
        print(
            *key,
            shown if isinstance(shown, str) else f"{shown:.3f}",
            f"{time.process_time() - begin:.0f} s",
            flush=True,
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = arguments.add_subparsers(dest="part", required=True)
    for part in ("run", "report"):
        p = parts.add_parser(part)
        p.add_argument("data", help="folder that holds the sets as .npz files")
        p.add_argument("store", help="file of JSON lines")
        p.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
        p.add_argument("--children", nargs="+", type=int, default=[2, 4], help="widths of the comparison of samplers")
    running = parts.choices["run"]
    running.add_argument("--what", nargs="+", default=["samplers"], choices=["samplers", "settings"])
    running.add_argument("--samplers", nargs="+", default=list(SAMPLERS))
    running.add_argument("--settings", nargs="+", default=list(STRUCTURES), choices=list(STRUCTURES))
    running.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    running.add_argument("--seconds", type=float, default=60.0, help="CPU seconds of a run")
    running.add_argument("--states", type=int, default=STATES, help="averaged at the end of a sampler's run")
    options = arguments.parse_args()
    if options.part == "run":
        run(options)
    else:
        from tests.benchmarks.table_report import report

        print(report(options, Store(options.store, KEY)))


if __name__ == "__main__":
    main()
