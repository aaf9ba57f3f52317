"""How learning ended."""

import enum


class LEARNING(enum.Enum):
    """Result codes of `kernelpde.learn`, with their messages."""

    converged = "The hyperparameters and the state have settled."
    scattered = (
        "The hyperparameters move to and fro by the scatter of the validation points; their mean "
        "over the last steps is kept."
    )
    step_limit = "The largest number of Gauss-Newton steps was reached; the last kernels are kept."
    rank_limit = (
        "The kernels became so rough that the low-rank solver has fewer than ten rows for each of "
        "its functionals, too few for a derivative; the last kernels are kept. Take more points, "
        "or Automatic()."
    )
    not_finite = (
        "The outer loss is not finite at the present hyperparameters, whatever the nugget. Check "
        "the kernel's start and the equation, or begin with another lengthscale."
    )
