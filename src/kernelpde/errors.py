"""Exceptions of kernelpde.

An invalid argument raises an `InputError` before the computation starts. Its message names the
argument, its value, the expected value and a remedy. A computation that fails raises a
`SolveError`, which carries the result code and the last solution.
"""


class KernelPDEError(Exception):
    """Base class of all exceptions of kernelpde.

    **Example:**

    ```python
    >>> issubclass(kp.InputError, kp.KernelPDEError)
    True
    ```
    """


class InputError(KernelPDEError, ValueError):
    """An invalid argument. The message states the expected value.

    **Example:**

    ```python
    >>> try:
    ...     kp.solve(problem, {"equations": 30})
    ... except kp.InputError as error:
    ...     print("Did you mean 'equation'?" in str(error))
    True
    ```
    """


class FileError(KernelPDEError, OSError):
    """A file that cannot be read or written. Existing files are unchanged.

    **Example:**

    ```python
    >>> try:
    ...     kp.save_kernels("/dev/null/kernels.json", problem)
    ... except kp.FileError as error:
    ...     print("not written")
    not written
    ```
    """


class RankError(InputError):
    """A rank of the Gram matrix that is too large for the low-rank solver.

    **Example:**

    ```python
    >>> issubclass(kp.RankError, kp.InputError)
    True
    ```
    """


class PrecisionError(KernelPDEError, RuntimeError):
    """A program in which JAX is not in 64-bit mode.

    **Example:**

    ```python
    >>> issubclass(kp.PrecisionError, kp.KernelPDEError)  # raised unless jax_enable_x64 is set
    True
    ```
    """


class SolveError(KernelPDEError, RuntimeError):
    """A computation that ended without a usable result.

    **Attributes:**

    - `solution`: last solution, for inspection. `solution.result` is the reason of the failure.

    **Example:**

    ```python
    >>> try:
    ...     kp.solve(problem, points, start={"u": lambda x: jnp.nan * x[0]})
    ... except (kp.SolveError, kp.InputError):
    ...     print("no answer rather than a wrong one")
    no answer rather than a wrong one
    ```
    """

    def __init__(self, message: str, solution: object = None):
        super().__init__(message)
        self.solution = solution
