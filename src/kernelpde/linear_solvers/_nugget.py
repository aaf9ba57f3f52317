"""Default nuggets, relative to the diagonal of the matrix."""

DEFAULT_NUGGET = 1e-12
"""Nugget of a solve. Larger ones bias the solution, smaller ones make factorizations fail: on the
elliptic problem with 2100 rows and a lengthscale of 0.2, 1e-14 does."""

LEARNING_NUGGET = 1e-10
"""Nugget of learning and of problems with noisy data, where rounding errors matter more than bias:
learning compares losses, and data leave some directions undetermined."""

MIN_NUGGET = 1e-15
"""Smallest nugget that is not zero: a few units of rounding, below which it changes no matrix."""

MAX_NUGGET = 1e-6
"""Largest nugget that is tried if a factorization fails."""
