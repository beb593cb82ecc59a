"""The verbs of a terminal: errors become one line and an exit code. May import everything."""
