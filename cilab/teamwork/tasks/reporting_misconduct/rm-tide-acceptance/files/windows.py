"""Sailing windows for the pilots' tablets, release 3.2."""

from fractions import Fraction as F
from math import ceil, floor

from runtime import exact


def windows(samples, need):
    """The (start, end) windows, in whole minutes, in which the depth is at least `need`; samples are (minute, depth)."""
    need = F(str(need))
    points = [(F(str(t)), F(str(d))) for t, d in samples]
    spans = []
    for (t0, d0), (t1, d1) in zip(points, points[1:]):
        if d0 < need and d1 < need:
            continue
        cross = t0 if d0 == d1 else t0 + (need - d0) * (t1 - t0) / (d1 - d0)
        a, b = (t0 if d0 >= need else cross), (t1 if d1 >= need else cross)
        if spans and spans[-1][1] == a:
            spans[-1][1] = b
        else:
            spans.append([a, b])
    opens, closes = (ceil, floor) if exact() else (floor, ceil)
    return [(opens(a), closes(b)) for a, b in spans if closes(b) > opens(a)]
