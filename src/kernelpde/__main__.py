"""`python -m kernelpde`."""

from kernelpde.cli import main

main()
