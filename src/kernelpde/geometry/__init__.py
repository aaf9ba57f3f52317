"""Domains, their boundary pieces and normals, and how to draw points from them."""

from kernelpde.geometry._averages import Averages as Averages
from kernelpde.geometry._averages import box_averages as box_averages
from kernelpde.geometry._averages import line_integrals as line_integrals
from kernelpde.geometry._averages import region_averages as region_averages
from kernelpde.geometry._ball import Ball as Ball
from kernelpde.geometry._corners import reentrant_corners as reentrant_corners
from kernelpde.geometry._domain import AbstractDomain as AbstractDomain
from kernelpde.geometry._domain import Box as Box
from kernelpde.geometry._domain import Combination as Combination
from kernelpde.geometry._graded import load_of as load_of
from kernelpde.geometry._grid import Grid as Grid
from kernelpde.geometry._grid import bounding_box as bounding_box
from kernelpde.geometry._grid import grid_over as grid_over
from kernelpde.geometry._region import AbstractRegion as AbstractRegion
from kernelpde.geometry._region import Patch as Patch
from kernelpde.geometry._region import Patches as Patches
from kernelpde.geometry._region import PointCloud as PointCloud
from kernelpde.geometry._region import Sample as Sample
from kernelpde.geometry._region import Space as Space
from kernelpde.geometry._region import patches_of as patches_of
from kernelpde.geometry._region import united as united
from kernelpde.geometry._sampling import METHODS as METHODS
from kernelpde.geometry._sizes import Sizes as Sizes
