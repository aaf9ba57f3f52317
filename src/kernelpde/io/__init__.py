"""Files: the archive format of the library, atomic writing, and tables for other libraries.

An archive is an .npz of numeric arrays with JSON attributes. The modules that save an object stay
next to its class, since reading has to build the object from classes above this package: kernels in
`kernelpde.problem`, solutions in `kernelpde.solution`, checkpoints in `kernelpde.bilevel`. They
only translate between the object and the contents of an archive.
"""

from kernelpde.io._archive import Attributes as Attributes
from kernelpde.io._archive import atomic_write as atomic_write
from kernelpde.io._archive import digest as digest
from kernelpde.io._archive import prepare_write as prepare_write
from kernelpde.io._archive import read_archive as read_archive
from kernelpde.io._archive import versions as versions
from kernelpde.io._archive import write_archive as write_archive
from kernelpde.io._field_files import FORMATS as FORMATS
from kernelpde.io._field_files import write_fields as write_fields
from kernelpde.io._table import FieldTable as FieldTable
