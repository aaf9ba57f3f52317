"""The unknown functions of a problem."""

from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import instance, real_number, shown, truth
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError
from kernelpde.functionals import Argument
from kernelpde.kernels import AbstractKernel, Constant, OnNodes, freeze
from kernelpde.tracing import Written

_SMOOTHER = 2.5
"""Lengthscales of laws are expected to be this many times longer than those of fields, relative to
the range: half of it."""


def _check_name(owner: str, name: str) -> None:
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
        raise InputError(
            f"{owner}: a name must be usable as an argument of a residual; got {shown(name)}."
        )
    if name == "normal":
        raise InputError(
            f"{owner}: 'normal' is what residuals call the outward normal; take another name."
        )


def _check_kernel(owner: str, kernel: AbstractKernel) -> None:
    instance(owner, "the kernel", kernel, AbstractKernel, "a kernel such as Gaussian(0.2)")


@dataclass(frozen=True)
class Field:
    """An unknown function, with the kernel that is its prior covariance.

    **Example:**

    ```python
    >>> temperature = kp.Field("T", 2.0 * kp.Gaussian([0.3, 0.1]))
    ```
    """

    name: str
    kernel: AbstractKernel

    def __post_init__(self):
        _check_name("Field", self.name)
        _check_kernel(f"Field {self.name!r}", self.kernel)


@dataclass(frozen=True)
class ComplexField:
    """An unknown complex function: two real fields, `NAME_real` and `NAME_imag`, seen as one.

    In a residual it is a complex number with complex derivatives, and a residual may return complex
    numbers; `solution[NAME]` is complex too.

    **Arguments:**

    - `name`: as for `Field`.
    - `kernel`: of the real part.
    - `imaginary`: of the imaginary part; the same kernel if left out, learned on its own.

    **Example:**

    ```python
    >>> h = kp.ComplexField("h", kp.Gaussian(0.5))
    >>> wave = kp.Condition("wave", rod.interior, lambda x, h: 1j * h.d("x") - h.value)
    >>> kp.Problem(wave, fields=[h]).fields[1].name
    'h_imag'
    ```
    """

    name: str
    kernel: AbstractKernel
    imaginary: AbstractKernel | None = None

    def __post_init__(self):
        _check_name("ComplexField", self.name)
        for kernel in (self.kernel, self.kernel if self.imaginary is None else self.imaginary):
            _check_kernel(f"ComplexField {self.name!r}", kernel)

    @property
    def parts(self) -> tuple[Field, Field]:
        """Real and imaginary part."""
        second = self.kernel if self.imaginary is None else self.imaginary
        return Field(f"{self.name}_real", self.kernel), Field(f"{self.name}_imag", second)


@earlier_names(deviation="std")
@dataclass(frozen=True)
class Parameter:
    """An unknown number: a diffusivity, a rate, a source strength.

    In a residual it is that number, without derivatives. It is solved for together with the fields,
    as a function that is constant a priori: its Gaussian prior is a kernel κ(x, y) = s².

    **Arguments:**

    - `name`: as for `Field`.
    - `mean`: of the prior; its median if the parameter is positive.
    - `std`: standard deviation s of the prior; that of the logarithm if the parameter is positive.
    - `positive`: whether the prior is log-normal instead of Gaussian.

    **Example:**

    ```python
    >>> rate = kp.Parameter("rate", mean=1.0, std=0.5, positive=True)
    ```
    """

    name: str
    mean: float
    std: float
    positive: bool = False

    def __post_init__(self):
        _check_name("Parameter", self.name)
        owner = f"Parameter {self.name!r}"
        real_number(owner, "the mean", self.mean)
        real_number(owner, "the standard deviation", self.std, above=0)
        truth(owner, "positive", self.positive)
        if self.positive and self.mean <= 0:
            raise InputError(
                f"{owner}: a positive parameter needs a positive mean, its median; got {self.mean}."
            )

    @property
    def field(self) -> Field:
        """The constant function that represents its offset from the prior mean."""
        return Field(self.name, freeze(Constant(self.std**2)))

    def value(self, offset: Float[Array, "*_"]) -> Float[Array, "*_"]:
        """The number, from the value of that function."""
        return self.mean * jnp.exp(offset) if self.positive else self.mean + offset

    def offset(self, value: float) -> float:
        """The value of that function, from the number."""
        if self.positive and not value > 0:
            raise InputError(f"Parameter {self.name!r}: expected a positive number; got {value}.")
        return float(np.log(value / self.mean)) if self.positive else value - self.mean


class Law:
    """An unknown function of the solution: a conductivity k(u), a reaction R(u), a friction f(u_x).

    In a residual it is called: `k(u.value).value` is its value, `k(u.value).d("u")` its derivative.
    It is solved for together with the fields.

        kp.Law("k", kp.Gaussian(0.3), u=(0, 1), mean=1.0)

    **Arguments:**

    - `name`: as for `Field`.
    - `kernel`: a function of its one argument, not of the point.
    - `mean`: of the prior, a constant.
    - `**argument`: the name of the argument, and the range over which the law is evaluated.

    **Example:**

    ```python
    >>> k = kp.Law("k", kp.Gaussian(0.5), u=(0, 1), mean=1.0)
    >>> def flow(x, u, k):
    ...     there = k(u.value)
    ...     return there.value * u.laplacian + there.d("u") * (u.gradient @ u.gradient) + 1.0
    ```
    """

    def __init__(
        self,
        name: str,
        kernel: AbstractKernel,
        *,
        mean: Any = 0.0,
        **argument: Any,
    ):
        _check_name("Law", name)
        owner = f"Law {name!r}"
        _check_kernel(owner, kernel)
        if isinstance(kernel, OnNodes):
            kernel = kernel.kernel
        self.name, self.kernel = name, kernel
        self.mean = float(real_number(owner, "the mean", mean))
        if len(argument) != 1:
            raise InputError(
                f"{owner}: expected the range of its one argument, such as u=(0, 1); got "
                f"{shown(argument)}."
            )
        ((called, ends),) = argument.items()
        found = np.asarray(ends, dtype=float) if np.shape(ends) == (2,) else np.full(2, np.nan)
        if not (np.isfinite(found).all() and found[0] < found[1]):
            raise InputError(
                f"{owner}: {called} must be a range such as (0, 1), the smaller end first; got "
                f"{shown(ends)}."
            )
        self.argument = Argument(called, float(found[0]), float(found[1]))

    @property
    def field(self) -> Field:
        """Its values at nodes, with the covariance that follows from the kernel."""
        return Field(self.name, self.on_nodes(self.kernel))

    def on_nodes(self, kernel: AbstractKernel) -> AbstractKernel:
        """A kernel of the argument as one of the values at nodes."""
        if isinstance(kernel, OnNodes):
            return kernel
        _, low, high = self.argument
        return OnNodes(kernel, tuple(self.argument.nodes.tolist()), _SMOOTHER * (high - low))


Unknown: TypeAlias = Field | ComplexField | Parameter | Law
"""What a problem may be asked to find."""


def real_fields(
    fields: Sequence[Unknown],
) -> tuple[
    tuple[Field, ...], tuple[tuple[str, int, int], ...], tuple[Parameter, ...], tuple[Law, ...]
]:
    """All real fields, name and part numbers of the complex ones, the parameters and the laws."""
    if not isinstance(fields, Sequence) or isinstance(fields, str):
        raise InputError(
            f"Problem: fields must be a list, such as [Field('u', Gaussian(0.2))]; got "
            f"{shown(fields)}."
        )
    for field in fields:
        expected = "such as Field('u', Gaussian(0.2)), a ComplexField, a Parameter or a Law"
        instance("Problem", "every field", field, (Field, ComplexField, Parameter, Law), expected)
    flat: list[Field] = []
    pairs, parameters, laws = [], [], []
    for field in fields:
        if isinstance(field, ComplexField):
            pairs.append((field.name, len(flat), len(flat) + 1))
            flat.extend(field.parts)
        elif isinstance(field, Parameter):
            parameters.append(field)
            flat.append(field.field)
        elif isinstance(field, Law):
            laws.append(field)
            flat.append(field.field)
        else:
            flat.append(field)
    return tuple(flat), tuple(pairs), tuple(parameters), tuple(laws)


def kernel_of(field: Field) -> AbstractKernel:
    """The kernel as it was written: that of a law, of its argument."""
    return field.kernel.kernel if isinstance(field.kernel, OnNodes) else field.kernel


def functions_in(fields: Sequence[Field]) -> list[Written]:
    """The functions that kernels are made of, as what they compute."""
    leaves = jax.tree.leaves([field.kernel for field in fields])
    return [leaf for leaf in leaves if isinstance(leaf, Written)]
