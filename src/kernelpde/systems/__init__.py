"""Solving linearised problems: dense, with few functionals that stand for all, or sparse."""

from kernelpde.systems._choice import Automatic as Automatic
from kernelpde.systems._choice import Choice as Choice
from kernelpde.systems._choice import Solver as Solver
from kernelpde.systems._choice import automatic_for as automatic_for
from kernelpde.systems._choice import chosen as chosen
from kernelpde.systems._choice import needs_numbers as needs_numbers
from kernelpde.systems._cost import in_words as in_words
from kernelpde.systems._dense import DensePlan as DensePlan
from kernelpde.systems._dense import DenseSolved as DenseSolved
from kernelpde.systems._local import Local as Local
from kernelpde.systems._local import Nearby as Nearby
from kernelpde.systems._low_rank import LowRank as LowRank
from kernelpde.systems._low_rank import LowRankPlan as LowRankPlan
from kernelpde.systems._low_rank import LowRankSolved as LowRankSolved
from kernelpde.systems._metric import Metric as Metric
from kernelpde.systems._sparse import Sparse as Sparse
from kernelpde.systems._sparse import SparsePlan as SparsePlan
from kernelpde.systems._system import AbstractPlan as AbstractPlan
from kernelpde.systems._system import AbstractSolved as AbstractSolved
from kernelpde.systems._system import moving_parts as moving_parts
