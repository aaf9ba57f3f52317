"""The requirement of 64-bit floats."""

import jax

from kernelpde.errors import PrecisionError


def require_float64() -> None:
    """Raise a `PrecisionError` unless JAX is in 64-bit mode.

    Gram matrices of derivative functionals have condition numbers of 1e12 and more, which exceeds
    the precision of 32-bit floats. The flag is global, so the library never sets it.
    """
    if not jax.config.read("jax_enable_x64"):
        raise PrecisionError(
            "kernelpde needs 64-bit floats, but JAX is in 32-bit mode. Before creating any array, "
            'run jax.config.update("jax_enable_x64", True), or set the environment variable '
            "JAX_ENABLE_X64=1."
        )
