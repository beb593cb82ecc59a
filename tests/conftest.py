"""For all tests."""

import os

# Tests run side by side: with threads of their own, matrix libraries would fight for the processors.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
