"""The page on the command, from the command itself.

python docs/make_commands.py
"""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

PAGE = Path(__file__).parent / "commands.md"


def page() -> str:
    """As typer describes it."""
    command = [sys.executable, "-m", "typer", "kernelpde.cli._app", "utils", "docs"]
    made = subprocess.run([*command, "--name", "kernelpde"], capture_output=True, check=True)
    lines = made.stdout.decode().splitlines()
    text = "\n".join(line.rstrip() for line in lines[1:])
    # The list of commands is cut off after 45 letters; what they do stands below in full.
    for name, cut in re.findall(r"^\* `(\w+)`: (.*)\.\.\.$", text, flags=re.MULTILINE):
        (whole,) = re.findall(rf"^## `kernelpde {name}`\n\n((?:.+\n)+)", text, flags=re.MULTILINE)
        text = text.replace(f"`{name}`: {cut}...", f"`{name}`: {' '.join(whole.split())}")
    return f"# The command `kernelpde`\n{text}\n<!-- by typer {version('typer')} -->\n"


if __name__ == "__main__":
    PAGE.write_text(page())
