"""Gallery pages: one script per problem, with equation, conditions, points and exact solution.

A page defines `GROUP`, `problem`, `points` and `references`, and `small`: numbers of points for a
quick test, and a bound on its relative error.
"""
