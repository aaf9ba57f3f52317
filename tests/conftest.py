import os
import sys
import tempfile
from pathlib import Path

# Most of the time of a run is the compiler's. Without its optimizations it takes half as long, and
# results are the same to rounding. Tests that depend on them ask for them: `optimized`.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # Workers and processes that tests start share compiled programs; nothing outlives a run.
    _programs = tempfile.TemporaryDirectory()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs.name
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import jax
import pytest

jax.config.update("jax_enable_x64", True)


def pytest_configure(config):
    # One worker may read an entry that another has not written to its end.
    config.addinivalue_line(
        "filterwarnings", "ignore:Error (reading|writing) persistent compilation cache entry"
    )


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


@pytest.fixture
def optimized(monkeypatch):
    """Compile programs of the library as users have them, with optimizations."""
    from kernelpde import compiling

    known = compiling.cpu_options
    usual = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}
    monkeypatch.setattr(compiling, "cpu_options", lambda options: usual | known(options))
