"""Prints what a pilot's tablet shows for the acceptance cases that have complete samples."""

from cases import CASES
from windows import windows

for name, (samples, need, _) in sorted(CASES.items()):
    if all(depth is not None for _, depth in samples):
        print(name, windows(samples, need))
