"""How a linear solve ended."""

import equinox as eqx


class RESULTS(eqx.Enumeration):
    """Result codes of a symmetric positive definite solve, with their messages."""

    successful = "The matrix was factored with the nugget asked for."
    nugget_raised = (
        "The matrix was not positive definite with the nugget asked for; a larger one was used."
    )
    not_positive_definite = (
        "The matrix is not positive definite even with the largest nugget allowed. Points that "
        "nearly coincide, a lengthscale far larger than the domain, or a kernel that is not smooth "
        "enough for the equation are the usual causes."
    )
    not_converged = (
        "Conjugate gradients did not reach their tolerance. A larger radius of the preconditioner, "
        "a larger nugget or a kernel of lower smoothness help."
    )
    not_finite = "The diagonal of the matrix is not positive and finite."
