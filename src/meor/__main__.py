"""`python -m meor` is the command `meor`."""

from meor.cli import main

main()
