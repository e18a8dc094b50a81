"""What holds for all plots."""

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    """Figures do not add up over tests."""
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
