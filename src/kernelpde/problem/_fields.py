"""Unknowns of a problem: fields, complex fields, parameters and laws."""

from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.checking import (
    check_bool,
    check_instance,
    check_real,
    input_error,
    is_sequence,
    require,
)
from kernelpde.functionals import LawArgument
from kernelpde.kernels import AbstractKernel, Constant, NodalKernel, freeze
from kernelpde.tracing import TracedFunction

_LAW_LENGTHSCALE_RATIO = 2.5
"""Extent of the argument of a law for initial lengthscales, in units of its range. The prior median
of a lengthscale is 0.2 times the extent, which is half of the range for a law."""


def check_identifier(caller: str, name: Any, label: str = "the name") -> None:
    """Check that a name can be an argument of a residual."""
    is_identifier = isinstance(name, str) and name.isidentifier() and not iskeyword(name)
    require(is_identifier, caller, label, "usable as an argument of a residual", name)
    advice = "In residuals it is the outward normal. Choose another name."
    require(name != "normal", caller, label, "different from 'normal'", name, advice)


def _check_kernel(caller: str, kernel: AbstractKernel) -> None:
    check_instance(caller, "the kernel", kernel, AbstractKernel, "a kernel such as Gaussian(0.2)")


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
        check_identifier("Field", self.name)
        _check_kernel(f"Field {self.name!r}", self.kernel)

    @property
    def components(self) -> "tuple[Field, ...]":
        """Real fields that represent the unknown."""
        return (self,)


@dataclass(frozen=True)
class ComplexField:
    """An unknown complex function, represented by two real fields, `NAME_real` and `NAME_imag`.

    In a residual it is a complex number with complex derivatives, and a residual may return complex
    numbers. `solution[NAME]` is complex too.

    **Arguments:**

    - `name`: name, as for `Field`.
    - `kernel`: kernel of the real part.
    - `imaginary`: kernel of the imaginary part, by default equal to `kernel`. Both are learned
      separately.

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
        check_identifier("ComplexField", self.name)
        for kernel in (self.kernel, self.kernel if self.imaginary is None else self.imaginary):
            _check_kernel(f"ComplexField {self.name!r}", kernel)

    @property
    def components(self) -> tuple[Field, ...]:
        """Real and imaginary part."""
        imaginary = self.kernel if self.imaginary is None else self.imaginary
        return Field(f"{self.name}_real", self.kernel), Field(f"{self.name}_imag", imaginary)


@dataclass(frozen=True)
class Parameter:
    """An unknown number: a diffusivity, a rate, a source strength.

    In a residual it is a number without derivatives. It is solved for together with the fields, as
    a constant function whose Gaussian prior has the kernel κ(x, y) = s².

    **Arguments:**

    - `name`: name, as for `Field`.
    - `mean`: prior mean, or the prior median if the parameter is positive.
    - `std`: prior standard deviation s, or standard deviation of the logarithm if the parameter is
      positive.
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
        check_identifier("Parameter", self.name)
        caller = f"Parameter {self.name!r}"
        check_bool(caller, "positive", self.positive)
        advice = "It is the median of a positive parameter." if self.positive else ""
        minimum = 0 if self.positive else None
        check_real(caller, "the mean", self.mean, greater_than=minimum, advice=advice)
        check_real(caller, "the standard deviation", self.std, greater_than=0)

    @property
    def components(self) -> tuple[Field, ...]:
        """Constant function that represents the offset from the prior mean."""
        return (Field(self.name, freeze(Constant(self.std**2))),)

    def value(self, offset: Float[Array, "*_"]) -> Float[Array, "*_"]:
        """Return the parameter from the value of its constant function."""
        return self.mean * jnp.exp(offset) if self.positive else self.mean + offset

    def offset(self, value: float) -> float:
        """Return the value of the constant function from the parameter."""
        if not self.positive:
            return value - self.mean
        check_real(f"Parameter {self.name!r}", "the value", value, greater_than=0)
        return float(np.log(value / self.mean))


class Law:
    """An unknown function of the solution: a conductivity k(u), a reaction R(u), a friction f(u_x).

    In a residual it is called: `k(u.value).value` is its value, `k(u.value).d("u")` its derivative.
    It is solved for together with the fields.

        kp.Law("k", kp.Gaussian(0.3), u=(0, 1), mean=1.0)

    **Arguments:**

    - `name`: name, as for `Field`.
    - `kernel`: kernel in the argument of the law.
    - `mean`: constant prior mean.
    - `**argument`: name and range of the argument of the law.

    **Example:**

    ```python
    >>> k = kp.Law("k", kp.Gaussian(0.5), u=(0, 1), mean=1.0)
    >>> def flow(x, u, k):
    ...     k_u = k(u.value)
    ...     return k_u.value * u.laplacian + k_u.d("u") * (u.gradient @ u.gradient) + 1.0
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
        check_identifier("Law", name)
        caller = f"Law {name!r}"
        _check_kernel(caller, kernel)
        if isinstance(kernel, NodalKernel):
            kernel = kernel.kernel
        self.name, self.kernel = name, kernel
        self.mean = float(check_real(caller, "the mean", mean))
        if len(argument) != 1:
            raise input_error(caller, "the argument", "one range such as u=(0, 1)", argument)
        ((argument_name, bounds),) = argument.items()
        is_pair = np.shape(bounds) == (2,)
        low, high = map(float, bounds) if is_pair else (np.nan, np.nan)
        is_range = bool(np.isfinite([low, high]).all() and low < high)
        require(is_range, caller, argument_name, "a range (low, high) with low < high", bounds)
        self.argument = LawArgument(argument_name, low, high)

    @property
    def components(self) -> tuple[Field, ...]:
        """Values at the nodes of the argument, with their covariance."""
        return (Field(self.name, self.to_nodal_kernel(self.kernel)),)

    def to_nodal_kernel(self, kernel: AbstractKernel) -> AbstractKernel:
        """Return the covariance of the values at the nodes for a kernel of the argument."""
        if isinstance(kernel, NodalKernel):
            return kernel
        _, low, high = self.argument
        return NodalKernel(
            kernel, tuple(self.argument.nodes.tolist()), _LAW_LENGTHSCALE_RATIO * (high - low)
        )


Unknown: TypeAlias = Field | ComplexField | Parameter | Law
"""An unknown of a problem."""


class Unknowns(NamedTuple):
    """Unknowns of a problem, represented by real fields.

    **Attributes:**

    - `fields`: all real fields.
    - `complex_fields`: name, index of the real part and index of the imaginary part.
    - `parameters`: unknown numbers. Each has a field of its name.
    - `laws`: functions of the solution. Each has a field of its name.
    """

    fields: tuple[Field, ...]
    complex_fields: tuple[tuple[str, int, int], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    laws: tuple[Law, ...] = ()


def flatten_fields(unknowns: Sequence[Unknown]) -> Unknowns:
    """Represent all unknowns by real fields."""
    expected = "a list, such as [Field('u', Gaussian(0.2))]"
    require(is_sequence(unknowns), "Problem", "fields", expected, unknowns)
    flat: list[Field] = []
    complex_fields = []
    for unknown in unknowns:
        expected = "such as Field('u', Gaussian(0.2)), a ComplexField, a Parameter or a Law"
        kinds = (Field, ComplexField, Parameter, Law)
        check_instance("Problem", "every field", unknown, kinds, expected)
        if isinstance(unknown, ComplexField):
            complex_fields.append((unknown.name, len(flat), len(flat) + 1))
        flat.extend(unknown.components)
    return Unknowns(
        tuple(flat),
        tuple(complex_fields),
        tuple(unknown for unknown in unknowns if isinstance(unknown, Parameter)),
        tuple(unknown for unknown in unknowns if isinstance(unknown, Law)),
    )


def original_kernel(field: Field) -> AbstractKernel:
    """Return the kernel of a field as the user passed it, for a law the kernel of its argument."""
    return field.kernel.kernel if isinstance(field.kernel, NodalKernel) else field.kernel


def traced_functions(fields: Sequence[Field]) -> list[TracedFunction]:
    """Return the traced user functions in the kernels of some fields."""
    leaves = jax.tree.leaves([field.kernel for field in fields])
    return [leaf for leaf in leaves if isinstance(leaf, TracedFunction)]
