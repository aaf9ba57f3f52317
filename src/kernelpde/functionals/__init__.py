"""Linear functionals of fields, their Gram matrices, and jets as arguments of residuals.

Implements the Gram matrices κ(Φ, Ψ) and expansions Σ wᵢ κ(·, φᵢ) of section 2 of the paper. Other
packages may import all names below. Users need no import: residuals receive jets as arguments.
"""

from kernelpde.functionals._batch import Functionals as Functionals
from kernelpde.functionals._batch import StackedFunctionals as StackedFunctionals
from kernelpde.functionals._batch import concatenate as concatenate
from kernelpde.functionals._batch import expand as expand
from kernelpde.functionals._batch import merge_small as merge_small
from kernelpde.functionals._batch import point_functionals as point_functionals
from kernelpde.functionals._devices import flatten_mesh as flatten_mesh
from kernelpde.functionals._devices import map_rows as map_rows
from kernelpde.functionals._devices import num_groups as num_groups
from kernelpde.functionals._devices import replicate as replicate
from kernelpde.functionals._devices import sum_groups as sum_groups
from kernelpde.functionals._gram import block_gram as block_gram
from kernelpde.functionals._gram import evaluate_jets as evaluate_jets
from kernelpde.functionals._gram import gram as gram
from kernelpde.functionals._gram import gram_diagonal as gram_diagonal
from kernelpde.functionals._gram import stacked_matvec as stacked_matvec
from kernelpde.functionals._jet import ComplexJet as ComplexJet
from kernelpde.functionals._jet import CoordinateFrame as CoordinateFrame
from kernelpde.functionals._jet import Jet as Jet
from kernelpde.functionals._jet import NoArithmetic as NoArithmetic
from kernelpde.functionals._jet import Term as Term
from kernelpde.functionals._law import LawArgument as LawArgument
from kernelpde.functionals._law import LawJet as LawJet
from kernelpde.functionals._law import nodal_terms as nodal_terms
from kernelpde.functionals._nonstationary import is_nonstationary as is_nonstationary
from kernelpde.functionals._prior import SCALES_PER_OCTAVE as SCALES_PER_OCTAVE
from kernelpde.functionals._prior import Prior as Prior
from kernelpde.kernels import pad_rows as pad_rows
