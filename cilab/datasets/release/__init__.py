"""The simulated release: 24 rows of pseudonyms in the shape of the teamwork paper. See `cilab.datasets`."""
