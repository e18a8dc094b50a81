"""Default runs with rounded values, and with all values exact: cost, mixing, scores of rows kept aside.

python -m tests.benchmarks.spn_default_cells DATA

Four fifths of scikit-learn's diabetes and wine and of airfoil are learned from. The other rows are scored with uniform
noise of the width of the grid on each number, by densities at the points: so both runs count alike, as would any model.
"""

import warnings

import numpy as np
import pymc as pm
from sklearn.datasets import load_diabetes, load_wine

import pymc_spn as ps
from pymc_spn.gibbs.palette_warnings import shifted_step
from pymc_spn.numerics.chain_mixing import r_hat_and_size
from pymc_spn.tables.resolution import resolution
from tests.benchmarks.report import QUIET, finish, markdown_table, parser
from tests.benchmarks.spn_problem import read_table

HEADER = ["table", "rounded", "ms a draw", "R-hat, log joint", "R-hat, score", "score of each chain, nats", "of all"]


def main():
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--draws", type=int, default=250, help="of each chain, after twice as many of tuning")
    options = arguments.parse_args()
    warnings.filterwarnings("ignore")  # of ties and of chains that do not meet: that is the subject
    wine = load_wine(as_frame=True).frame
    tables = {
        "diabetes": load_diabetes(as_frame=True).frame,
        "wine": wine.assign(target=wine["target"].astype(str)),
        "airfoil": read_table(options.data, "airfoil_self_noise").to_frame(),
    }
    rows = [compared(options, name, frame, rounded) for name, frame in tables.items() for rounded in ("auto", False)]
    finish(options, [("Cells by default", markdown_table(HEADER, rows))], {"rows": rows})


def compared(options, name, frame, rounded):
    """One run of four chains."""
    rng = np.random.default_rng(1)
    order = rng.permutation(len(frame))
    n = len(frame) * 4 // 5
    train, test = (frame.iloc[np.sort(part)].reset_index(drop=True) for part in (order[:n], order[n:]))
    for column in test.select_dtypes("float"):
        width = resolution(train[column]) or shifted_step(train[column].to_numpy())
        test[column] += width * (rng.random(len(test)) - 0.5)
    with pm.Model():
        ps.SPN("x", observed=train, rounded=rounded)
        idata = pm.sample(options.draws, tune=2 * options.draws, chains=4, random_seed=1, quiet=True, **QUIET)
    post = ps.SPNPosterior.from_idata(idata)
    logs = post.log_density(test, per_draw=True, cells=False)
    top = logs.max("draw")
    of_chains = (np.log(np.exp(logs - top).mean("draw")) + top).mean("row").values
    joint, score = (
        r_hat_and_size(x.values[..., None])[0].item() for x in (idata["posterior"]["x_log_joint"], logs.mean("row"))
    )
    schema = post._states.schema
    return [
        name,
        f"{len(schema.rounded)} of {len(schema.columns)}" if schema.rounded else "none",
        1e3 * float(np.median(idata["sample_stats"]["x_seconds"])),
        joint,
        score,
        " ".join(f"{x:.1f}" for x in of_chains),
        float(post.log_density(test, cells=False).mean()),
    ]


if __name__ == "__main__":
    main()
