"""A family of the sampler that is added to a copy of the package: its file and its lines in the registry."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pymc_spn

CLASS = '''
@dataclass(frozen=True)
class Waiting(Exponential):
    """The same leaves under another name."""

    family: ClassVar[str] = "waiting"


WAITING = replace(EXPONENTIAL, name="waiting")


'''
USE = """
import warnings

import numpy as np
import pandas as pd
import pymc as pm

import pymc_spn as ps
from pymc_spn.leaves.waiting import Waiting

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
z = rng.integers(0, 2, 40)
frame = pd.DataFrame({"wait": rng.exponential(1.0 + 4.0 * z), "size": rng.normal(3.0 * z)})
frame.loc[3, "wait"] = np.nan
settings = dict(draws=8, tune=4, chains=1, cores=1, progressbar=False, compute_convergence_checks=False, random_seed=1)


def found(entry, *more):
    out = []
    palette = {"wait": [entry, *more]}
    for step in (ps.steps.TopDownSPNStep, ps.steps.BottomUpSPNStep):
        with pm.Model():
            tree = ps.circuits.complete_tree(["wait", "size"], n_children=3)
            ps.SPN("x", tree, observed=frame, leaves=palette, kinds={"wait": "positive"})
            idata = pm.sample(step=step(), **settings)
        out += [variable.values for variable in idata.posterior.values()]
    post = ps.SPNPosterior.from_idata(idata)
    fit = ps.fit_variational(frame, tree, leaves=palette, kinds={"wait": "positive"}, random_seed=1)
    for answers in (post, fit):
        out += [answers.log_density(frame).values, answers.sample(20, random_seed=2).to_numpy()]
        out += [answers.impute(frame, random_seed=2).to_numpy()]
    return out


for more in ((), (ps.leaves.Gaussian(),)):
    for a, b in zip(found(ps.leaves.Exponential(), *more), found(Waiting(), *more), strict=True):
        np.testing.assert_array_equal(a, b)
"""


def edited(path, *pairs):
    text = path.read_text()
    for old, new in pairs:
        assert text.count(old) == 1, (path, old)
        text = text.replace(old, new)
    path.write_text(text)


def test_a_copy_of_the_exponential_family_gives_the_same_chains(tmp_path):
    """Every branch of the kernels comes from the file of the family, so the copy has branches of its own."""
    package = Path(pymc_spn.__file__).parent
    shutil.copytree(package, tmp_path / "pymc_spn", ignore=shutil.ignore_patterns("__pycache__"))
    leaves = tmp_path / "pymc_spn" / "leaves"
    text = (leaves / "lomax.py").read_text()
    text = text.replace("prior=Exponential", "prior=Waiting").replace('"lomax"', '"waiting_lomax"')
    text = re.sub(r"^LOMAX = ", "WAITING_LOMAX = ", text, flags=re.M).replace(
        "\ndef gamma_rate", f"{CLASS}def gamma_rate"
    )
    text = text.replace("import math\n", "import math\nfrom dataclasses import dataclass, replace\n")
    text = text.replace("import Any\n", "import Any, ClassVar\n").replace(
        "import Exponential", "import EXPONENTIAL, Exponential"
    )
    (leaves / "waiting.py").write_text(text)
    edited(
        leaves / "explicit_leaves.py",
        ("import STUDENT_T\n", "import STUDENT_T\nfrom pymc_spn.leaves.waiting import WAITING, WAITING_LOMAX\n"),
        ("    GAUSSIAN, STUDENT_T,", "    WAITING, WAITING_LOMAX, GAUSSIAN, STUDENT_T,"),
    )
    edited(
        leaves / "family_codes.py",
        ('"tabulated",', '"waiting", "waiting_lomax", "tabulated",'),
        (" TABULATED, ROUNDED", " WAITING, WAITING_LOMAX, TABULATED, ROUNDED"),
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    done = subprocess.run([sys.executable, "-c", USE], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
