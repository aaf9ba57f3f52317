import os
import sys
import tempfile
from pathlib import Path

# Most of the time of a run is the compiler's. Without its optimizations it takes half as long, and
# results are the same to rounding; test_compiling.py asks for them, as users have them.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import jax
import pytest

jax.config.update("jax_enable_x64", True)

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # Workers share compiled programs, and nothing outlives a run.
    _programs = tempfile.TemporaryDirectory()
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs.name
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


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
