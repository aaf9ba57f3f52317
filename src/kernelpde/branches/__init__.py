"""Branches of solutions along a path of inputs.

`continuation` walks an input to hard problems and passes folds. Each of its steps solves for the
fields and for the position on the path together, by `kernelpde.solution.solve`. Continuation is an
extension of the paper.
"""

from kernelpde.branches._branch import Branch as Branch
from kernelpde.branches._branch import Fold as Fold
from kernelpde.branches._continuation import continuation as continuation
