"""What an order posterior answers by sums over its support: edges, parent sets, orders."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_spn.dags.dag import DAG
from pymc_spn.dags.edge_summaries import consensus_of_edges, table_of_edges
