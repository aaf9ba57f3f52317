"""Reproduction of the tables and figures of the paper (section 5) by `kernelpde reproduce`."""

from kernelpde.reproduce._parts import PARTS as PARTS
from kernelpde.reproduce._report import as_html as as_html
from kernelpde.reproduce._report import markdown as markdown
from kernelpde.reproduce._report import median_errors as median_errors
from kernelpde.reproduce._run import reproduce as reproduce
