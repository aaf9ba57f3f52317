"""The posterior with the uncertainty of the hyperparameters in it."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from kernelpde.checking import instance, random_key, whole_number
from kernelpde.errors import SolveError
from kernelpde.gauss_newton import solve
from kernelpde.inference._posterior import Posterior, Where, posterior
from kernelpde.learning import Learned


class Mixture:
    """Several posteriors with equal weights, one for each draw of the hyperparameters.

    **Attributes:**

    - `members`: the posteriors.
    """

    def __init__(self, members: Sequence[Posterior]):
        self.members = tuple(members)

    def __getitem__(self, field: str) -> "MixtureView":
        return MixtureView(self, field)

    @property
    def parameters(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of each unknown number."""
        found = {}
        for name in self.members[0].parameters:
            estimates = [member.parameters[name] for member in self.members]
            mean, deviation = _pooled(
                jnp.asarray([e.mean for e in estimates]),
                jnp.asarray([e.deviation for e in estimates]),
            )
            found[name] = (float(mean), float(deviation))
        return found


class MixtureView:
    """A field under a mixture of posteriors."""

    def __init__(self, owner: Mixture, field: str):
        self._owner, self._field = owner, field

    def mean(self, where: Where) -> Float[Array, "*_"]:
        """The mean of all means."""
        return jnp.mean(jnp.stack([m[self._field].mean(where) for m in self._owner.members]), 0)

    def deviation(self, where: Where) -> Float[Array, "*_"]:
        """Standard deviation: that within posteriors and that between their means."""
        means = jnp.stack([m[self._field].mean(where) for m in self._owner.members])
        deviations = jnp.stack([m[self._field].deviation(where) for m in self._owner.members])
        return _pooled(means, deviations)[1]


def _pooled(
    means: Float[Array, " s *_"], deviations: Float[Array, " s *_"]
) -> tuple[Float[Array, "*_"], Float[Array, "*_"]]:
    """var = E[var] + var[E]."""
    return jnp.mean(means, 0), jnp.sqrt(jnp.mean(deviations**2, 0) + jnp.var(means, 0))


def marginal_posterior(learned: Learned, key: PRNGKeyArray, draws: int = 8) -> Mixture:
    """The posterior over draws of the hyperparameters instead of at their best values.

    Hyperparameters are drawn from N(θ, H⁻¹) with H the curvature of the outer loss where learning
    ended: Laplace's approximation, for a loss that is minus a log density, as with
    `LeaveOneOutPredictive`.

    **Arguments:**

    - `learned`: from `learn`, with data.
    - `key`: the source of randomness.
    - `draws`: how many, each with a solve of its own. Draws that do not converge are left out.
    """
    expected = "what learn returns for a problem with data"
    instance("marginal_posterior", "learned", learned, Learned, expected)
    random_key("marginal_posterior", key)
    whole_number("marginal_posterior", "draws", draws, at_least=1)
    solution = learned.solution
    if solution is None or learned.covariance is None:
        raise SolveError("marginal_posterior: needs a solution, and hyperparameters from data.")
    values, vectors = np.linalg.eigh(learned.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.asarray(jax.random.normal(key, (draws, len(root))))
    members = []
    for shift in noise @ root.T:
        found = solve(
            learned.shifted(shift),
            solution.blocks,
            linear_solver=learned.linear_solver,
            throw=False,
        )
        if found.converged:
            members.append(posterior(found))
    if not members:
        raise SolveError(f"marginal_posterior: none of {draws} draws converged.", solution)
    return Mixture(members)
