"""Methods: arrays in, numbers out. They know no run and no table. May import `cilab.core` and `cilab.results`."""
