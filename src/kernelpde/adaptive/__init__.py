"""Solve to a target accuracy.

`solve` refines points and kernels level by level until the estimated error is below the target
(`Accuracy`), and grades them towards reentrant corners. The levels, grading and point counts are
also available from here. Refinement is an extension of the paper, which prescribes the points.
"""

from kernelpde.adaptive._accuracy import Accuracy as Accuracy
from kernelpde.adaptive._accuracy import check_accuracy as check_accuracy
from kernelpde.adaptive._counts import points_per_condition as points_per_condition
from kernelpde.adaptive._grading import grade_problem as grade_problem
from kernelpde.adaptive._grading import grading_centers as grading_centers
from kernelpde.adaptive._solve import solve as solve
