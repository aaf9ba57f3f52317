import os
import tempfile

import jax

jax.config.update("jax_enable_x64", True)

if "KERNELPDE_CACHE" not in os.environ:
    # Workers share what they compile, and nothing outlives a run.
    _programs = tempfile.TemporaryDirectory()
    os.environ["KERNELPDE_CACHE"] = _programs.name
