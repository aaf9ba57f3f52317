"""Optimal design: the next measurement."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kernelpde.checking import check_instance, check_real
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals
from kernelpde.inference._posterior import Posterior


class NextMeasurement(NamedTuple):
    """Most informative measurement among candidates.

    **Attributes:**

    - `best`: index of the best candidate.
    - `gain`: fraction of the total variance of the quantities that each candidate would remove.
    """

    best: int
    gain: Float[np.ndarray, " n"]


def next_measurement(
    posterior: Posterior, candidates: Functionals, noise: float, quantities: Functionals
) -> NextMeasurement:
    """Select the candidate ψ that minimizes the total variance of quantities γ₁, γ₂, ...

    A measurement of ψ with noise σ reduces the variance of γ by cov(γ, ψ)² / (var ψ + σ²), whatever
    value is measured. This is exact for linear conditions.

    **Arguments:**

    - `posterior`: current posterior.
    - `candidates`: possible measurements, for example `posterior["u"].functionals(points)`.
    - `noise`: standard deviation of a measurement.
    - `quantities`: quantities of interest, for example `posterior["a"].functionals(grid)`.

    **Example:**

    ```python
    >>> posterior = kp.posterior(inverse_result)
    >>> candidates = posterior["u"].functionals([[0.25], [0.5]])
    >>> quantities = posterior["u"].functionals(np.linspace(0, 1, 11)[:, None])
    >>> kp.next_measurement(posterior, candidates, noise=0.01, quantities=quantities).best
    1
    ```
    """
    check_instance(
        "next_measurement", "posterior", posterior, Posterior, "from kp.posterior(solution)"
    )
    for name, batch in (("candidates", candidates), ("quantities", quantities)):
        expected = 'from posterior["u"].functionals(points)'
        check_instance("next_measurement", name, batch, Functionals, expected)
    check_real("next_measurement", "noise", noise)
    if noise < 0:
        raise InputError(f"next_measurement: noise must not be negative; got {noise}.")
    covariance = posterior.covariance(quantities, candidates)
    measurement_variance = posterior.std(candidates) ** 2 + noise**2
    total_variance = jnp.sum(posterior.std(quantities) ** 2)
    gain = np.asarray(jnp.sum(covariance**2, axis=0) / measurement_variance / total_variance)
    return NextMeasurement(int(np.argmax(gain)), gain)
