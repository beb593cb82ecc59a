"""Statistics: tables in, results out. No files, no model calls, no plotting.

May import `cilab.errors`, `cilab.tables` and `cilab.registry`.
"""

from cilab.stats.gap import GapResult, gap
from cilab.stats.result import Provenance, Result

__all__ = ["GapResult", "Provenance", "Result", "gap"]
