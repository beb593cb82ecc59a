"""The scripts of `benchmarks`, as modules: tests compute parts of stored studies again with what made them."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@cache
def script(path: str) -> ModuleType:
    """The script at a path below `benchmarks`, such as `studies/few_clusters`, run as a module once."""
    name = f"benchmarks_{path.replace('/', '_')}"
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{path}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
