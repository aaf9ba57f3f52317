"""The prior of several fields: independent kernels, or latent functions mixed."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from kernelpde.kernels import AbstractKernel


class Mixed(eqx.Module):
    """Correlated fields u_f = Σ_q A_fq w_q of independent functions w_q, each with its own kernel.

    The linear model of coregionalization (Alvarez, Rosasco and Lawrence 2012, section 4):
    cov(u_f(x), u_g(y)) = Σ_q A_fq A_gq κ_q(x, y). The entries of A are hyperparameters.

    **Attributes:**

    - `latents`: κ_q.
    - `mixing`: A.
    """

    latents: tuple[AbstractKernel, ...]
    mixing: Float[Array, "F Q"]


class Balanced(eqx.Module):
    """Independent fields of different size, u_f = S_f w_f: what a unit of each field is.

    Where no noise gives the size of a field a meaning, only the ratio of sizes matters, and numbers
    that are 10⁹ times as large as others drown them. S_f = 2^(e_f / 8), with whole numbers e_f:
    they are not learned, and what is compiled does not depend on them.

    **Attributes:**

    - `latents`: the kernels of w.
    - `exponents`: e.
    """

    latents: tuple[AbstractKernel, ...]
    exponents: Int[Array, " F"]

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, field: int) -> AbstractKernel:
        return self.latents[field]


Kernels: TypeAlias = tuple[AbstractKernel, ...] | Mixed | Balanced
"""One kernel per field, fields being independent a priori; or latent kernels mixed."""


Shares: TypeAlias = Mapping[int, Float[Array, ""] | None]
"""The fields that a latent kernel is part of, with its coefficients there; `None` is 1."""

Latent: TypeAlias = tuple[AbstractKernel, Shares]


def latents_of(kernels: Kernels) -> Iterator[Latent]:
    """Each latent kernel with the fields it is part of and its coefficients there; `None` is 1."""
    if isinstance(kernels, Mixed):
        for q, kernel in enumerate(kernels.latents):
            yield kernel, {f: kernels.mixing[f, q] for f in range(kernels.mixing.shape[0])}
    elif isinstance(kernels, Balanced):
        sizes = jnp.exp2(kernels.exponents / 8.0)
        for field, kernel in enumerate(kernels.latents):
            yield kernel, {field: sizes[field]}
    else:
        for field, kernel in enumerate(kernels):
            yield kernel, {field: None}
