"""The prior of several fields: independent kernels, or latent functions mixed."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import equinox as eqx
from jaxtyping import Array, Float

from kernelpde.kernels import AbstractKernel


class Mixed(eqx.Module):
    """Correlated fields u_f = Σ_q A_fq w_q of independent functions w_q, each with its own kernel.

    The linear model of coregionalisation (Alvarez, Rosasco and Lawrence 2012, section 4):
    cov(u_f(x), u_g(y)) = Σ_q A_fq A_gq κ_q(x, y). The entries of A are hyperparameters.

    **Attributes:**

    - `latents`: κ_q.
    - `mixing`: A.
    """

    latents: tuple[AbstractKernel, ...]
    mixing: Float[Array, "F Q"]


Kernels: TypeAlias = tuple[AbstractKernel, ...] | Mixed
"""One kernel per field, fields being independent a priori; or latent kernels mixed."""


Shares: TypeAlias = Mapping[int, Float[Array, ""] | None]
"""The fields that a latent kernel is part of, with its coefficients there; `None` is 1."""

Latent: TypeAlias = tuple[AbstractKernel, Shares]


def latents_of(kernels: Kernels) -> Iterator[Latent]:
    """Each latent kernel with the fields it is part of and its coefficients there; `None` is 1."""
    if isinstance(kernels, Mixed):
        for q, kernel in enumerate(kernels.latents):
            yield kernel, {f: kernels.mixing[f, q] for f in range(kernels.mixing.shape[0])}
    else:
        for field, kernel in enumerate(kernels):
            yield kernel, {field: None}
