"""The simulated maze study in the shape of the Collaboration Gap paper. See `cilab.datasets`."""
