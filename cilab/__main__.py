"""`python -m cilab` is the `cilab` command."""

from cilab.cli import main

main()
