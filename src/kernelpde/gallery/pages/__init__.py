"""One problem per file, as a user would write it: equation, conditions, points, exact solution.

A page defines `GROUP`, `problem`, `points` and `references`, and `small`: fewer points, and the
relative error that they suffice for.
"""
