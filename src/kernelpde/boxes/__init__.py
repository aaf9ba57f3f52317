"""Kinks, layers and fronts: adaptive boxes with local kernels and robust least squares.

`solve_in_boxes` needs no lengthscale. Each box of a tree has a kernel with lengthscales of its
size, the rows of all conditions follow the boxes, and boxes with large held-out residuals are
halved.
"""

from kernelpde.boxes._checks import is_supported as is_supported
from kernelpde.boxes._solution import BoxErrorEstimate as BoxErrorEstimate
from kernelpde.boxes._solution import BoxLevel as BoxLevel
from kernelpde.boxes._solution import BoxSolution as BoxSolution
from kernelpde.boxes._solve import solve_in_boxes as solve_in_boxes
