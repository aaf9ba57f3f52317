"""Kernels κ(x, y) with exactly the derivatives that a Gram matrix of functionals needs."""

from kernelpde.kernels._binding import bind_coordinates as bind_coordinates
from kernelpde.kernels._composed import AbstractComposed as AbstractComposed
from kernelpde.kernels._composed import Seen as Seen
from kernelpde.kernels._composed import composed_diagonal as composed_diagonal
from kernelpde.kernels._composed import composed_gram as composed_gram
from kernelpde.kernels._composed import composed_product as composed_product
from kernelpde.kernels._composed import seen as seen
from kernelpde.kernels._composed import summands as summands
from kernelpde.kernels._extents import all_numbers as all_numbers
from kernelpde.kernels._extents import log_extents as log_extents
from kernelpde.kernels._extents import (
    per_coordinate_lengthscales as per_coordinate_lengthscales,
)
from kernelpde.kernels._extents import periods_of as periods_of
from kernelpde.kernels._extents import places as places
from kernelpde.kernels._extents import stretched as stretched
from kernelpde.kernels._extents import typical_lengthscales as typical_lengthscales
from kernelpde.kernels._frozen import Frozen as Frozen
from kernelpde.kernels._frozen import freeze as freeze
from kernelpde.kernels._function import Function as Function
from kernelpde.kernels._gibbs import Gibbs as Gibbs
from kernelpde.kernels._gibbs import gibbs_in as gibbs_in
from kernelpde.kernels._given import Features as Features
from kernelpde.kernels._kernel import AbstractKernel as AbstractKernel
from kernelpde.kernels._kernel import Constant as Constant
from kernelpde.kernels._kernel import Coordinates as Coordinates
from kernelpde.kernels._kernel import Product as Product
from kernelpde.kernels._kernel import Restriction as Restriction
from kernelpde.kernels._kernel import Scale as Scale
from kernelpde.kernels._kernel import Sum as Sum
from kernelpde.kernels._lengthscales import Bumps as Bumps
from kernelpde.kernels._lengthscales import Network as Network
from kernelpde.kernels._lengthscales import Sized as Sized
from kernelpde.kernels._make import make_of as make_of
from kernelpde.kernels._multiindex import MultiIndex as MultiIndex
from kernelpde.kernels._multiindex import OrderPair as OrderPair
from kernelpde.kernels._nodes import OnNodes as OnNodes
from kernelpde.kernels._operators import Operators as Operators
from kernelpde.kernels._operators import operators as operators
from kernelpde.kernels._parameters import hyperparameters as hyperparameters
from kernelpde.kernels._periodic import Periodic as Periodic
from kernelpde.kernels._polynomial import Polynomial as Polynomial
from kernelpde.kernels._radial import AbstractRadial as AbstractRadial
from kernelpde.kernels._radial import Gaussian as Gaussian
from kernelpde.kernels._radial import Matern as Matern
from kernelpde.kernels._radial import PeriodicRadial as PeriodicRadial
from kernelpde.kernels._radial import RationalQuadratic as RationalQuadratic
from kernelpde.kernels._warped import Warped as Warped
