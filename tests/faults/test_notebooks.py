"""A notebook's kernel that dies, and a process of the pool that renders all reports: the others are rendered."""

from __future__ import annotations

import json

import pytest

from cilab import reports
from cilab.core import paths
from cilab.core.errors import ReportError
from cilab.reports import batch as report_all
from tests.faults import notebooks

KERNEL_DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
PROCESS_DIES = "import os, signal; os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(5)"
FINE = "print('a line of its own')"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(notebooks.ROOT, str(tmp_path / "root"))
    monkeypatch.setattr(paths, "shipped", notebooks.shipped)
    monkeypatch.setattr(report_all, "_render", notebooks.render)
    return tmp_path / "root"


def test_a_kernel_that_is_killed_is_one_line_and_leaves_the_notebook_up_to_there(root, tmp_path, counted):
    notebooks.write(root, "dies", KERNEL_DIES)
    with pytest.raises(ReportError, match="the kernel died") as error:
        reports.render("dies", out=tmp_path / "reports", figures=tmp_path / "figures")
    assert "\n" not in str(error.value)
    left = {p.name for p in (tmp_path / "reports").iterdir()}
    assert left == {"dies.failed.ipynb", "render.log"}
    assert "the kernel died" in json.loads((tmp_path / "reports" / "render.log").read_text())["ending"]
    counted("a kernel that is killed", reports=1, told=1)


@pytest.mark.parametrize(("kernels", "processes"), [(0, 1), pytest.param(3, 3, marks=pytest.mark.study)])
def test_a_kernel_or_a_process_that_is_killed_fails_alone(kernels, processes, root, tmp_path, counted):
    n, fine = kernels + processes, kernels + processes
    sources = {f"kernel{i}": KERNEL_DIES for i in range(kernels)}
    sources |= {f"process{i}": PROCESS_DIES for i in range(processes)} | {f"fine{i}": FINE for i in range(fine)}
    for name, source in sources.items():
        notebooks.write(root, name, source)
    told = []
    batch = report_all.render_all(
        out=tmp_path / "reports", figures=tmp_path / "figures", workers=2, told=lambda *how: told.append(how)
    )
    assert sorted(batch.rendered) == sorted(name for name in sources if name.startswith("fine"))
    for name, why in batch.failed.items():
        what = "the kernel died" if name.startswith("kernel") else "the process that rendered it died"
        assert what in why and name in why and "\n" not in why
    assert len(batch.failed) == n and [done for done, *_ in told] == list(range(1, n + fine + 1))
    page = batch.index.read_text()
    assert page.count("the process that rendered it died") == processes
    assert not [p.name for p in (tmp_path / "reports").iterdir() if p.name.endswith(".tmp")]
    counted("a kernel or a pool's process that is killed", reports=n + fine, failed=n, rendered=len(batch.rendered))
