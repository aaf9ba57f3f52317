"""What kernelpde raises.

A mistake that can be seen before anything is computed is an `InputError`: its message says what
was given, what was expected and what to do. A computation that fails is a `SolveError`: it carries
the result code and everything known about the failure.
"""


class KernelPDEError(Exception):
    """Base of every error that kernelpde raises on purpose."""


class InputError(KernelPDEError, ValueError):
    """Something given to kernelpde cannot be used; the message says what would be."""


class FileError(KernelPDEError, OSError):
    """A file cannot be written; the one that was there before is as it was."""


class RankError(InputError):
    """The rank of the Gram matrix is too large for the low-rank solver, or for so few rows."""


class PrecisionError(KernelPDEError, RuntimeError):
    """JAX is not in 64-bit mode."""


class SolveError(KernelPDEError, RuntimeError):
    """A computation ended without a usable answer.

    **Attributes:**

    - `solution`: whatever was reached, for inspection; `solution.result` says why it stopped.
    """

    def __init__(self, message: str, solution: object = None):
        super().__init__(message)
        self.solution = solution
