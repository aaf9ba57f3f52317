"""Domains, regions and the points drawn from them.

Shapes have named boundary pieces with outward normals. Points of regions are the collocation and
validation points of section 2 of the paper. The package also contains averages over regions, grids
for pictures, and the grading of points towards corners. Import from `kernelpde.geometry` only.
"""

from kernelpde.geometry._averages import Averages as Averages
from kernelpde.geometry._averages import box_averages as box_averages
from kernelpde.geometry._averages import gauss_legendre as gauss_legendre
from kernelpde.geometry._averages import line_integrals as line_integrals
from kernelpde.geometry._averages import region_averages as region_averages
from kernelpde.geometry._ball import Ball as Ball
from kernelpde.geometry._box import Box as Box
from kernelpde.geometry._cloud import FiniteRegion as FiniteRegion
from kernelpde.geometry._cloud import PointCloud as PointCloud
from kernelpde.geometry._domain import AbstractDomain as AbstractDomain
from kernelpde.geometry._domain import BooleanDomain as BooleanDomain
from kernelpde.geometry._extrusion import Extrusion as Extrusion
from kernelpde.geometry._grading_centers import GradingCenters as GradingCenters
from kernelpde.geometry._grading_centers import find_grading_centers as find_grading_centers
from kernelpde.geometry._grading_centers import reentrant_corners as reentrant_corners
from kernelpde.geometry._grid import Grid as Grid
from kernelpde.geometry._grid import bounding_box as bounding_box
from kernelpde.geometry._grid import make_grid as make_grid
from kernelpde.geometry._implicit import Implicit as Implicit
from kernelpde.geometry._mesh import Mesh as Mesh
from kernelpde.geometry._mesh import read_mesh as read_mesh
from kernelpde.geometry._polygon import Polygon as Polygon
from kernelpde.geometry._region import AbstractRegion as AbstractRegion
from kernelpde.geometry._region import Patch as Patch
from kernelpde.geometry._region import PatchUnion as PatchUnion
from kernelpde.geometry._region import as_patches as as_patches
from kernelpde.geometry._region import density_integral as density_integral
from kernelpde.geometry._region import union as union
from kernelpde.geometry._sampling import METHODS as METHODS
from kernelpde.geometry._sampling import RegionSample as RegionSample
from kernelpde.geometry._sampling import unit_points as unit_points
from kernelpde.geometry._size_field import SizeField as SizeField
from kernelpde.geometry._space import Space as Space
from kernelpde.geometry._vertices import Vertex as Vertex
from kernelpde.geometry._vertices import find_vertices as find_vertices
