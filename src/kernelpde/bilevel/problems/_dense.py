"""Inner problems whose state is a vector of values, with dense linear algebra."""

import abc
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from kernelpde.arrays import TINY, to_array
from kernelpde.bilevel._protocol import (
    AbstractInnerProblem,
    AbstractLinearizedProblem,
    InnerStep,
)

_Linearized = TypeVar("_Linearized", bound=AbstractLinearizedProblem)


class AbstractDenseLinearized(AbstractLinearizedProblem):
    """Linearized problem whose solution is small."""

    def without_factor(self, solution: Any) -> Any:
        return solution

    def is_usable(self, solution: Any) -> Bool[Array, ""]:
        return jnp.all(
            jnp.isfinite(jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(solution)]))
        )

    @property
    def can_cache(self) -> bool:
        return True


class AbstractDenseProblem(AbstractInnerProblem[_Linearized]):
    """Inner problem whose residuals depend nonlinearly on a vector v(u) of values only."""

    @abc.abstractmethod
    def values(self, solution: Any) -> Float[Array, " n"]:
        """Return v(Π_k(θ))."""

    @property
    def factorizations_per_linearization(self) -> int:
        return 0

    def update(
        self,
        theta: np.ndarray,
        linearized: _Linearized,
        solution: Any,
        state: Float[Array, " n"],
        lengths: np.ndarray,
    ) -> InnerStep:
        del theta, linearized
        old, new = np.asarray(state), np.asarray(self.values(solution))
        updated = old + lengths[0] * (new - old)
        change = np.max(np.abs(updated - old)) / max(np.max(np.abs(updated)), TINY)
        return InnerStep(to_array(updated), float(lengths[0]), float(change), {})

    def stabilize(self, state: Float[Array, " n"]) -> None:
        del state

    def metrics(self, solution: Any) -> dict[str, Any]:
        del solution
        return {}
