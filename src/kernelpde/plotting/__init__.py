"""All plots: fields on grids, records over steps, posterior samples and animations.

Functions of this package take arrays, problems or small protocols, and return matplotlib figures.
They import nothing above `kernelpde.problem`: `Solution.plot` and the other `plot` methods collect
the values and call them. matplotlib is imported by the first plot.
"""

from kernelpde.plotting._animation import Animation as Animation
from kernelpde.plotting._animation import animate_fields as animate_fields
from kernelpde.plotting._fields import FieldOverlays as FieldOverlays
from kernelpde.plotting._fields import Plottable as Plottable
from kernelpde.plotting._fields import plot_fields as plot_fields
from kernelpde.plotting._fields import plot_lengthscales as plot_lengthscales
from kernelpde.plotting._history import plot_learning_history as plot_learning_history
from kernelpde.plotting._history import plot_solve_history as plot_solve_history
from kernelpde.plotting._notebook import NotebookDisplay as NotebookDisplay
from kernelpde.plotting._notebook import figure_to_html as figure_to_html
from kernelpde.plotting._panels import Chart as Chart
from kernelpde.plotting._panels import Curve as Curve
from kernelpde.plotting._panels import Panel as Panel
from kernelpde.plotting._panels import draw_charts as draw_charts
from kernelpde.plotting._panels import draw_panels as draw_panels
from kernelpde.plotting._samples import plot_samples as plot_samples
from kernelpde.plotting._style import BAND_WIDTH as BAND_WIDTH
from kernelpde.plotting._style import import_pyplot as import_pyplot
from kernelpde.plotting._style import label_with_unit as label_with_unit
