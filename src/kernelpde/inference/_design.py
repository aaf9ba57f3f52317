"""Which measurement to make next."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kernelpde.checking import instance, real_number
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals
from kernelpde.inference._posterior import Posterior


class Choice(NamedTuple):
    """The measurement that tells most.

    **Attributes:**

    - `best`: its number among the candidates.
    - `gain`: for each candidate the part of the goal's total variance that it would remove.
    """

    best: int
    gain: Float[np.ndarray, " n"]


def next_measurement(
    posterior: Posterior, candidates: Functionals, noise: float, goal: Functionals
) -> Choice:
    """The candidate ψ that leaves least variance in the goal γ₁, γ₂, ...

    A measurement of ψ with noise σ lowers the variance of γ by cov(γ, ψ)² / (var ψ + σ²), whatever
    it turns out to be. Exact for linear conditions.

    **Arguments:**

    - `posterior`: what is known so far.
    - `candidates`: what could be measured, for example `posterior["u"].functionals(points)`.
    - `noise`: standard deviation of a measurement.
    - `goal`: what is to be known, for example `posterior["a"].functionals(grid)`.

    **Example:**

    ```python
    >>> known = kp.posterior(found)
    >>> candidates = known["u"].functionals([[0.25], [0.5]])
    >>> goal = known["u"].functionals(np.linspace(0, 1, 11)[:, None])
    >>> choice = kp.next_measurement(known, candidates, noise=0.01, goal=goal)
    ```
    """
    instance("next_measurement", "posterior", posterior, Posterior, "from kp.posterior(solution)")
    for name, batch in (("candidates", candidates), ("goal", goal)):
        expected = 'from posterior["u"].functionals(points)'
        instance("next_measurement", name, batch, Functionals, expected)
    real_number("next_measurement", "noise", noise)
    if noise < 0:
        raise InputError(f"next_measurement: noise must not be negative; got {noise}.")
    shared = posterior.covariance(goal, candidates)
    spread = posterior.std(candidates) ** 2 + noise**2
    total = jnp.sum(posterior.std(goal) ** 2)
    gain = np.asarray(jnp.sum(shared**2, axis=0) / spread / total)
    return Choice(int(np.argmax(gain)), gain)
