"""Priors of several fields: independent, scaled, or linear combinations of latent functions."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from kernelpde.kernels import AbstractKernel


class Coregionalization(eqx.Module):
    """Correlated fields u_f = Σ_q A_fq w_q of independent functions w_q with separate kernels.

    The linear model of coregionalization (Alvarez, Rosasco and Lawrence 2012, section 4):
    cov(u_f(x), u_g(y)) = Σ_q A_fq A_gq κ_q(x, y). The entries of A are hyperparameters.

    **Attributes:**

    - `latents`: κ_q.
    - `mixing`: A.
    """

    latents: tuple[AbstractKernel, ...]
    mixing: Float[Array, "F Q"]


class ScaledFields(eqx.Module):
    """Independent fields in separate units, u_f = S_f w_f with S_f = 2^(e_f / 8).

    If no noise sets the scale of a field, only ratios of scales matter. Rounding errors of a field
    that is 10⁹ times as large would then exceed the other fields. The exponents are integers. They
    are not trainable, and compiled programs do not depend on them.

    **Attributes:**

    - `latents`: kernels of w.
    - `exponents`: e.
    """

    latents: tuple[AbstractKernel, ...]
    exponents: Int[Array, " F"]

    def __len__(self) -> int:
        return len(self.latents)

    def __getitem__(self, field: int) -> AbstractKernel:
        return self.latents[field]


Kernels: TypeAlias = tuple[AbstractKernel, ...] | Coregionalization | ScaledFields
"""One kernel per field with fields independent a priori, or latent kernels."""


MixingWeights: TypeAlias = Mapping[int, Float[Array, ""] | None]
"""Weights of a latent function in the fields that contain it, `None` for 1."""

Latent: TypeAlias = tuple[AbstractKernel, MixingWeights]


def latent_kernels(kernels: Kernels) -> Iterator[Latent]:
    """Iterate over latent kernels and their weights."""
    if isinstance(kernels, Coregionalization):
        for q, kernel in enumerate(kernels.latents):
            yield kernel, {f: kernels.mixing[f, q] for f in range(kernels.mixing.shape[0])}
    elif isinstance(kernels, ScaledFields):
        scales = jnp.exp2(kernels.exponents / 8.0)
        for field, kernel in enumerate(kernels.latents):
            yield kernel, {field: scales[field]}
    else:
        for field, kernel in enumerate(kernels):
            yield kernel, {field: None}
