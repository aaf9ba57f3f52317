"""Covariance functions κ(x, y) with the partial derivatives in Gram matrices of functionals.

Kernels are pytrees with the hyperparameters θ of section 2 of the paper as leaves. Sections 5.4 and
5.5 use Gibbs kernels with network lengthscales. Other packages may import all names below. Users
import kernels from the top level.
"""

from kernelpde.kernels._extents import all_parameters as all_parameters
from kernelpde.kernels._extents import coordinates_of_parameters as coordinates_of_parameters
from kernelpde.kernels._extents import log_extents as log_extents
from kernelpde.kernels._extents import (
    per_coordinate_lengthscales as per_coordinate_lengthscales,
)
from kernelpde.kernels._extents import scale_lengthscales as scale_lengthscales
from kernelpde.kernels._extents import typical_lengthscales as typical_lengthscales
from kernelpde.kernels._features import FeatureKernel as FeatureKernel
from kernelpde.kernels._frozen import Frozen as Frozen
from kernelpde.kernels._frozen import freeze as freeze
from kernelpde.kernels._function import FunctionKernel as FunctionKernel
from kernelpde.kernels._gibbs import Gibbs as Gibbs
from kernelpde.kernels._gibbs import find_gibbs as find_gibbs
from kernelpde.kernels._kernel import AbstractKernel as AbstractKernel
from kernelpde.kernels._kernel import Constant as Constant
from kernelpde.kernels._kernel import Coordinates as Coordinates
from kernelpde.kernels._kernel import Product as Product
from kernelpde.kernels._kernel import Scale as Scale
from kernelpde.kernels._kernel import Sum as Sum
from kernelpde.kernels._kernel import kernel_periods as kernel_periods
from kernelpde.kernels._lengthscales import BumpLengthscale as BumpLengthscale
from kernelpde.kernels._lengthscales import NetworkLengthscale as NetworkLengthscale
from kernelpde.kernels._lengthscales import SizeFieldLengthscale as SizeFieldLengthscale
from kernelpde.kernels._multiindex import MultiIndex as MultiIndex
from kernelpde.kernels._multiindex import OrderPair as OrderPair
from kernelpde.kernels._nodes import NodalKernel as NodalKernel
from kernelpde.kernels._nonstationary import AbstractNonstationary as AbstractNonstationary
from kernelpde.kernels._nonstationary import OperatorValues as OperatorValues
from kernelpde.kernels._nonstationary import apply_operators as apply_operators
from kernelpde.kernels._nonstationary import nonstationary_diagonal as nonstationary_diagonal
from kernelpde.kernels._nonstationary import nonstationary_gram as nonstationary_gram
from kernelpde.kernels._nonstationary import nonstationary_matvec as nonstationary_matvec
from kernelpde.kernels._operators import make_operators as make_operators
from kernelpde.kernels._optional import add_optional as add_optional
from kernelpde.kernels._optional import sum_optional as sum_optional
from kernelpde.kernels._parameters import hyperparameters as hyperparameters
from kernelpde.kernels._periodic import Periodic as Periodic
from kernelpde.kernels._polynomial import Polynomial as Polynomial
from kernelpde.kernels._radial import AbstractRadial as AbstractRadial
from kernelpde.kernels._radial import Gaussian as Gaussian
from kernelpde.kernels._radial import Matern as Matern
from kernelpde.kernels._radial import RationalQuadratic as RationalQuadratic
from kernelpde.kernels._singular import SingularFunction as SingularFunction
from kernelpde.kernels._singular import SingularKernel as SingularKernel
from kernelpde.kernels._structure import structure_of as structure_of
from kernelpde.kernels._tiles import map_tiles as map_tiles
from kernelpde.kernels._tiles import num_rows as num_rows
from kernelpde.kernels._tiles import pad_rows as pad_rows
from kernelpde.kernels._warped import Warped as Warped
