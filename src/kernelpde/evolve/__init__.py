"""Evolution problems, solved in successive time windows.

`march` solves each window with the final state of the previous one as its initial condition, and
returns an `Evolution`. Both may be imported from here. All windows share the kernels, which are
learned in the first window if requested. Windows are an extension of the paper.
"""

from kernelpde.evolve._evolution import Evolution as Evolution
from kernelpde.evolve._march import march as march
