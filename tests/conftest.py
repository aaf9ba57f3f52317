import os
import sys
import tempfile
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)

if "KERNELPDE_CACHE" not in os.environ:
    # Workers share what they compile, and nothing outlives a run.
    _programs = tempfile.TemporaryDirectory()
    os.environ["KERNELPDE_CACHE"] = _programs.name


def pytest_collection_modifyitems(config, items):
    """Mark the tests of `slow.txt`; names there that no test has are an error."""
    lines = (Path(__file__).parent / "slow.txt").read_text().splitlines()
    slow = {line for line in lines if not line.startswith("#")}
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)
            slow.remove(item.nodeid)
    if slow and config.args == config.getini("testpaths"):
        raise pytest.UsageError(f"tests/slow.txt names what is no test: {', '.join(slow)}")


@pytest.fixture(autouse=True)
def _no_figures_are_left():
    """Figures of pyplot stay open until somebody closes them, and it warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
