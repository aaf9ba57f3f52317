"""Linear functionals of fields, and Gram matrices between batches of them."""

from kernelpde.functionals._batch import Functionals as Functionals
from kernelpde.functionals._batch import Stack as Stack
from kernelpde.functionals._batch import concatenate as concatenate
from kernelpde.functionals._batch import evaluation as evaluation
from kernelpde.functionals._batch import expansion as expansion
from kernelpde.functionals._devices import everywhere as everywhere
from kernelpde.functionals._devices import group_count as group_count
from kernelpde.functionals._devices import groups_summed as groups_summed
from kernelpde.functionals._devices import one_axis as one_axis
from kernelpde.functionals._devices import padded as padded
from kernelpde.functionals._devices import rows_shared as rows_shared
from kernelpde.functionals._gram import DEFAULT_MEMORY as DEFAULT_MEMORY
from kernelpde.functionals._gram import gram as gram
from kernelpde.functionals._gram import gram_diagonal as gram_diagonal
from kernelpde.functionals._gram import gram_in_tiles as gram_in_tiles
from kernelpde.functionals._gram import gram_of_blocks as gram_of_blocks
from kernelpde.functionals._gram import jets as jets
from kernelpde.functionals._gram import matvec as matvec
from kernelpde.functionals._gram import stacked_matvec as stacked_matvec
from kernelpde.functionals._jet import ComplexJet as ComplexJet
from kernelpde.functionals._jet import Frame as Frame
from kernelpde.functionals._jet import Jet as Jet
from kernelpde.functionals._jet import Term as Term
from kernelpde.functionals._prior import Balanced as Balanced
from kernelpde.functionals._prior import Kernels as Kernels
from kernelpde.functionals._prior import Mixed as Mixed
