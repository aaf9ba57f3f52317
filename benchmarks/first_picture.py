"""From `pip install` in a new environment to the picture of the README.

    python benchmarks/first_picture.py

builds the wheel, installs it with the extra `cli` into an empty virtual environment with pip's
cache and ours off, runs the README's program there, and writes `results/first-picture.json`: wall
seconds of each part. Downloads come from whatever index pip is configured for.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from _report import write

ROOT = Path(__file__).parent.parent


def main() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", name, str(ROOT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = place.glob("*.whl")
        (place / "readme.py").write_text(block)
        outside = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        seconds = {}

        def timed(part: str, *command: str | Path) -> None:
            begin = time.perf_counter()
            settings = {**outside, "KERNELPDE_CACHE": "off", "PIP_NO_CACHE_DIR": "1"}
            subprocess.run(command, check=True, cwd=name, env=settings, stdout=subprocess.DEVNULL)
            seconds[part] = time.perf_counter() - begin

        venv.create(place / "env", with_pip=True)
        python = place / "env" / "bin" / "python"
        timed("install", python, "-m", "pip", "install", "-q", f"kernelpde[cli] @ {wheel.as_uri()}")
        timed("program", python, "readme.py")
        assert (place / "u.png").stat().st_size > 0
    write("first-picture", {"seconds": {**seconds, "total": sum(seconds.values())}})


if __name__ == "__main__":
    main()
