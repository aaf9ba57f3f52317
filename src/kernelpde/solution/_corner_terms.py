"""Coefficients of the singular functions of a solution, such as stress intensity factors."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kernelpde.functionals import Functionals
from kernelpde.kernels import AbstractKernel, Scale, SingularFunction, SingularKernel, Sum
from kernelpde.problem import Problem, original_kernel


class CornerTerm(NamedTuple):
    """A singular term of a solution at a corner.

    It is c r^λ sin(λθ) if the value is prescribed on the first side θ = 0 of the corner, and
    c r^λ cos(λθ) if the normal derivative is. With a logarithm it is the imaginary or real part of
    c z^λ log z. For anisotropic equations r and θ refer to the coordinates of `SingularFunction`,
    scaled to equal area.

    **Attributes:**

    - `field`: name of the field.
    - `function`: the singular function, with the corner and the exponent λ.
    - `coefficient`: c.
    """

    field: str
    function: SingularFunction
    coefficient: float

    def __str__(self) -> str:
        x, y = self.function.corner
        log = " log r" if self.function.has_log else ""
        return (
            f"{self.field} at ({x:.6g}, {y:.6g}), {np.rad2deg(self.function.angle):.6g}°: "
            f"{self.coefficient:.6g} r^{self.function.exponent:.4g}{log}"
        )


def corner_terms(problem: Problem, expansion: Sequence[Functionals]) -> tuple[CornerTerm, ...]:
    """Return the singular terms of a solution, from its expansion in functionals."""
    terms: list[CornerTerm] = []
    for index, field in enumerate(problem.fields):
        for kernel, variance in _singular_kernels(original_kernel(field)):
            values = variance * sum(
                np.einsum("n,in->i", np.asarray(batch.coefficients)[:, t], derivatives[order])
                for batch in expansion
                for t, term in enumerate(batch.terms)
                if term.field == index
                for derivatives in [kernel.derivatives(tuple(batch.points.T), term.orders)]
                for order in term.orders
            )
            for function, value in zip(kernel.functions, np.atleast_1d(values), strict=True):
                scale = np.abs(np.imag(np.conj(function.axes[0]) * function.axes[1])) ** 0.5
                terms.append(
                    CornerTerm(field.name, function, float(value * scale**function.exponent))
                )
    return tuple(terms)


def _singular_kernels(kernel: AbstractKernel) -> Iterator[tuple[SingularKernel, float]]:
    """Iterate over the singular summands of a kernel and their variances."""
    if isinstance(kernel, SingularKernel):
        yield kernel, 1.0
    elif isinstance(kernel, Sum):
        yield from _singular_kernels(kernel.first)
        yield from _singular_kernels(kernel.second)
    elif isinstance(kernel, Scale):
        for singular, variance in _singular_kernels(kernel.kernel):
            yield singular, variance * float(np.asarray(kernel.variance))
