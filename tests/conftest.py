"""For all tests."""

import os

# Tests run side by side: with threads of their own, matrix libraries would fight for the processors.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def pytest_collection_modifyitems(items):
    """Whole commands first: they take longest, and one that begins last would keep one worker while the other idles."""
    items.sort(key=lambda item: "e2e" not in item.path.parts)
