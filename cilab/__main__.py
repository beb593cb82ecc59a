"""`python -m cilab` is the `cilab` command."""

from cilab.shell.app import main

main()
