"""Evolution in time, window by window."""

from kernelpde.evolve._evolution import Evolution as Evolution
from kernelpde.evolve._march import march as march
