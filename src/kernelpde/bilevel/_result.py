"""How learning ended."""

import enum


class LEARNING(enum.Enum):
    """Result codes of `kernelpde.learn`, with their messages."""

    converged = "The hyperparameters and the state have settled."
    step_limit = "The largest number of Gauss-Newton steps was reached; the last kernels are kept."
    not_finite = (
        "The outer loss is not finite at the present hyperparameters, whatever the nugget. Check "
        "the kernel's start and the equation, or begin with another lengthscale."
    )
