"""Names of the first edition; they go with the next release."""

from jaxtyping import PRNGKeyArray

from kernelpde.checking import instance
from kernelpde.deprecation import warn_moved
from kernelpde.inference._posterior import Posterior, posterior
from kernelpde.learning import Learned


def marginal_posterior(learned: Learned, key: PRNGKeyArray, draws: int = 8) -> Posterior:
    """What `posterior(learned)` was called before.

    **Arguments:**

    - `learned`: from `learn`, with data.
    - `key`, `draws`: of random hyperparameters once; not used any more.
    """
    expected = "what learn returns for a problem with data"
    instance("marginal_posterior", "learned", learned, Learned, expected)
    del key, draws
    warn_moved("marginal_posterior(learned, key)", "posterior(learned)")
    return posterior(learned)
