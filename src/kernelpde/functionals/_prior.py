"""Gaussian-process priors of several fields."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from kernelpde.kernels import AbstractKernel

MixingWeights: TypeAlias = Mapping[int, Float[Array, ""] | None]
"""Weights of a latent function in the fields that contain it, `None` for 1."""

Latent: TypeAlias = tuple[AbstractKernel, MixingWeights]


SCALES_PER_OCTAVE = 8.0
"""Steps between a scale of a field and its double. Scales are rounded to integers of these steps,
so that they are not trained. Half and double change units of fields by at most 19% and 4%."""


class Prior(eqx.Module):
    """Gaussian-process prior of all fields: independent, correlated, or in separate units.

    With a mixing matrix A the fields are combinations u_f = Σ_q A_fq w_q of independent functions
    w_q. This is the linear model of coregionalization (Alvarez, Rosasco and Lawrence 2012, section
    4): cov(u_f(x), u_g(y)) = Σ_q A_fq A_gq κ_q(x, y).

    With exponents e the fields are u_f = 2^(e_f / 8) w_f. If no noise sets the scale of a field,
    only ratios of scales matter. Rounding errors of a field that is 10⁹ times as large would then
    exceed the other fields. Exponents are integers and not trainable.

    **Attributes:**

    - `kernels`: κ, one per field or latent function w.
    - `mixing`: A, whose entries are hyperparameters, or `None` for independent fields.
    - `exponents`: e, or `None` for fields in the same units.
    """

    kernels: tuple[AbstractKernel, ...]
    mixing: Float[Array, "F Q"] | None = None
    exponents: Int[Array, " F"] | None = None

    def latents(self) -> Iterator[Latent]:
        """Iterate over the kernels of the latent functions and their weights in the fields."""
        for index, kernel in enumerate(self.kernels):
            if self.mixing is not None:
                yield kernel, {f: self.mixing[f, index] for f in range(self.mixing.shape[0])}
            elif self.exponents is not None:
                yield kernel, {index: jnp.exp2(self.exponents[index] / SCALES_PER_OCTAVE)}
            else:
                yield kernel, {index: None}
