"""The unknown functions of a problem."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelpde.errors import InputError
from kernelpde.kernels import AbstractKernel


@dataclass(frozen=True)
class Field:
    """An unknown function, with the kernel that is its prior covariance."""

    name: str
    kernel: AbstractKernel

    def __post_init__(self):
        if not self.name.isidentifier():
            raise InputError(
                f"Field: a name must be usable as an argument of a residual; got {self.name!r}."
            )
        if not isinstance(self.kernel, AbstractKernel):
            raise InputError(
                f"Field {self.name!r}: expected a kernel such as Gaussian(0.2); "
                f"got {self.kernel!r}."
            )


@dataclass(frozen=True)
class ComplexField:
    """An unknown complex function: two real fields, `NAME_real` and `NAME_imag`, seen as one.

    In a residual it is a complex number with complex derivatives, and a residual may return complex
    numbers; `solution[NAME]` is complex too.

    **Arguments:**

    - `name`: as for `Field`.
    - `kernel`: of the real part.
    - `imaginary`: of the imaginary part; the same kernel if left out, learned on its own.
    """

    name: str
    kernel: AbstractKernel
    imaginary: AbstractKernel | None = None

    @property
    def parts(self) -> tuple[Field, Field]:
        """Real and imaginary part."""
        second = self.kernel if self.imaginary is None else self.imaginary
        return Field(f"{self.name}_real", self.kernel), Field(f"{self.name}_imag", second)


def real_fields(
    fields: Sequence[Field | ComplexField],
) -> tuple[tuple[Field, ...], tuple[tuple[str, int, int], ...]]:
    """All real fields, and name and part numbers of the complex ones."""
    flat: list[Field] = []
    pairs = []
    for field in fields:
        if isinstance(field, ComplexField):
            pairs.append((field.name, len(flat), len(flat) + 1))
            flat.extend(field.parts)
        else:
            flat.append(field)
    return tuple(flat), tuple(pairs)
