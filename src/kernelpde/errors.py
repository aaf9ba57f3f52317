"""What kernelpde raises.

A mistake that can be seen before anything is computed is an `InputError`: its message says what
was given, what was expected and what to do. A computation that fails is a `SolveError`: it carries
the result code and everything known about the failure.
"""


class KernelPDEError(Exception):
    """Base of every error that kernelpde raises on purpose.

    **Example:**

    ```python
    >>> issubclass(kp.InputError, kp.KernelPDEError)
    True
    ```
    """


class InputError(KernelPDEError, ValueError):
    """Something given to kernelpde cannot be used; the message says what would be.

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
    """A file cannot be read or written; an existing file is left unchanged.

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
    """The rank of the Gram matrix is too large for the low-rank solver, or for so few rows.

    **Example:**

    ```python
    >>> issubclass(kp.RankError, kp.InputError)
    True
    ```
    """


class PrecisionError(KernelPDEError, RuntimeError):
    """JAX is not in 64-bit mode.

    **Example:**

    ```python
    >>> issubclass(kp.PrecisionError, kp.KernelPDEError)  # raised unless jax_enable_x64 is set
    True
    ```
    """


class SolveError(KernelPDEError, RuntimeError):
    """A computation ended without a usable answer.

    **Attributes:**

    - `solution`: whatever was reached, for inspection; `solution.result` says why it stopped.

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
