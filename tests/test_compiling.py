"""Options for the compiler are used where they are known, and left out where not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernelpde import compiling


@pytest.fixture
def other_options(monkeypatch):
    """An option that no compiler knows, beside one that it does."""
    options = {"xla_cpu_prefer_vector_width": 256, "xla_cpu_fly_to_the_moon": True}
    monkeypatch.setattr(compiling, "_OPTIONS", options)
    compiling.cpu_options.cache_clear()
    yield
    compiling.cpu_options.cache_clear()


def test_an_option_that_the_compiler_does_not_know_is_left_out(other_options):
    assert compiling.cpu_options() == {"xla_cpu_prefer_vector_width": 256}
    cube = compiling.compiled(lambda x: x**3)
    assert float(cube(jnp.asarray(3.0))) == 27.0


def test_a_value_that_makes_no_sense_is_not_known():
    assert compiling.known("xla_cpu_prefer_vector_width", 512)
    assert not compiling.known("xla_cpu_prefer_vector_width", "wide")


def test_compiled_functions_can_be_mapped_and_differentiated_inside_another_jit():
    cube = compiling.compiled(lambda x: x**3)
    x = jnp.linspace(0.0, 1.0, 5)
    slopes = jax.jit(jax.vmap(jax.grad(cube)))(x)
    np.testing.assert_allclose(slopes, 3.0 * np.asarray(x) ** 2, rtol=1e-15)
