"""The files in memory and the tools over them: ordinary use, and every way to name a file that is not there."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cilab.teamwork.sandbox import Limits, SandboxError, Workspace

FILES = {
    "src/stock.py": "def count():\n    return 1\n",
    "tests/test_stock.py": "import stock\n",
    "notes.txt": "one\ntwo\n",
}

#: Ways to reach outside, to hide a path, or to name a file twice.
BAD_PATHS = [
    "../notes.txt",
    "src/../../etc/passwd",
    "src/..",
    "/etc/passwd",
    "//etc/passwd",
    "/work/../etc/passwd",
    "/workspace/notes.txt",
    "~/notes.txt",
    "C:\\notes.txt",
    "src\\stock.py",
    "notes.txt\0.py",
    "notes\n.txt",
    "notes\u202etxt.py",  # reads from right to left
    "no\u200btes.txt",  # zero-width space
    "src\u2215stock.py",  # division slash
    "src\uff0fstock.py",  # full-width slash
    "\uff0e\uff0e\u2044etc",  # full-width dots, fraction slash
    "notes\ud800.txt",  # half a surrogate pair
    " /notes.txt",
    "",
    ".",
    "a" * 300,
    "/".join(["a"] * 40),
    None,
    7,
    ["notes.txt"],
]


def tools(w: Workspace, path: object) -> list[str]:
    """Every tool that takes a path, asked for `path`."""
    return [
        w.read_file(path),  # type: ignore[arg-type]
        w.write_file(path, "x"),  # type: ignore[arg-type]
        w.edit_file(path, "one", "1"),  # type: ignore[arg-type]
        w.delete_file(path),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("path", BAD_PATHS, ids=[ascii(p)[:30] for p in BAD_PATHS])
def test_no_tool_follows_a_path_that_leads_out_or_hides_what_it_names(path: object) -> None:
    w = Workspace(FILES)
    for answer in tools(w, path):
        assert answer.startswith("error: ")
        assert "\n" not in answer and answer.isprintable()
    if path not in ("", "."):
        assert w.list_files(path).startswith("error: ")  # type: ignore[arg-type]
        assert w.search_files("one", path).startswith("error: ")  # type: ignore[arg-type]
    assert w.snapshot() == dict(sorted(FILES.items()))
    assert (w.changed, w.opened) == (set(), {})


@given(st.text(max_size=40))
def test_whatever_a_path_is_no_tool_raises_and_every_file_keeps_a_plain_relative_name(path: str) -> None:
    w = Workspace(FILES)
    for answer in (*tools(w, path), w.list_files(path), w.search_files("one", path)):
        assert isinstance(answer, str) and answer
    for name in w.snapshot():
        assert not name.startswith("/") and ".." not in name.split("/") and "\\" not in name
        assert name == unicodedata.normalize("NFC", name)


def test_the_tools_do_what_they_say() -> None:
    w = Workspace(FILES, readonly=["tests/*"])
    w.round = 3
    assert w.list_files() == "notes.txt\nsrc/stock.py\ntests/test_stock.py  (read-only)"
    assert w.list_files("src") == "src/stock.py"
    assert w.read_file("src/stock.py") == FILES["src/stock.py"]
    assert w.search_files("RETURN") == "src/stock.py:2: return 1"
    assert w.search_files("nothing like it") == "(not found)"
    assert w.edit_file("src/stock.py", "return 1", "return 2") == "src/stock.py: 1 passage replaced."
    assert w.write_file("new/plan.md", "# Plan\n") == "new/plan.md: created, 7 characters."
    assert w.delete_file("notes.txt") == "notes.txt: deleted."
    assert w.snapshot() == {
        "new/plan.md": "# Plan\n",
        "src/stock.py": "def count():\n    return 2\n",
        "tests/test_stock.py": "import stock\n",
    }
    assert w.changed == {"src/stock.py", "new/plan.md", "notes.txt"}
    assert w.opened == {"src/stock.py": 3}
    assert w.initial == FILES


def test_a_path_as_tracebacks_show_it_names_the_same_file() -> None:
    w = Workspace(FILES)
    assert w.read_file("/work/src/stock.py") == w.read_file("./src//stock.py") == FILES["src/stock.py"]
    assert w.list_files("/work") == w.list_files(".") == w.list_files()


def test_one_name_in_two_unicode_spellings_is_one_file_and_case_makes_two() -> None:
    w = Workspace({"caf\u00e9.txt": "a"})
    assert w.write_file("cafe\u0301.txt", "b").startswith("caf\u00e9.txt: replaced")
    w.write_file("Caf\u00e9.txt", "c")
    assert w.snapshot() == {"Caf\u00e9.txt": "c", "caf\u00e9.txt": "b"}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("three", "3", "is not in the file"),
        ("o", "0", "is there 2 times"),
        ("", "x", "give the passage"),
        ("one", "one", "are the same"),
        (1, "x", "must be texts"),
        ("one", None, "must be texts"),
    ],
)
def test_an_edit_that_is_not_exact_changes_nothing_and_says_why(old: object, new: object, reason: str) -> None:
    w = Workspace(FILES)
    answer = w.edit_file("notes.txt", old, new)  # type: ignore[arg-type]
    assert answer.startswith("error: notes.txt: ") and reason in answer
    assert w.changed == set()


def test_read_only_files_can_be_read_and_neither_changed_nor_joined_by_new_ones() -> None:
    w = Workspace(FILES, readonly=["tests/*"])
    assert w.read_file("tests/test_stock.py") == "import stock\n"
    for answer in (
        w.write_file("tests/test_stock.py", "pass"),
        w.edit_file("tests/test_stock.py", "import", "# import"),
        w.delete_file("tests/test_stock.py"),
        w.write_file("tests/conftest.py", "pass"),
        w.write_file("./tests//deep/conftest.py", "pass"),
    ):
        assert "is read-only" in answer
    assert w.snapshot() == dict(sorted(FILES.items()))


def test_sizes_are_limited_one_by_one_and_together() -> None:
    w = Workspace({"a": "x"}, limits=Limits(file_bytes=10, files=3, total_bytes=20))
    assert "more than a file may have" in w.write_file("b", "x" * 11)
    assert "more than a file may have" in w.write_file("b", "é" * 6)
    assert w.write_file("b", "x" * 10).startswith("b: created")
    assert "all files together" in w.write_file("c", "x" * 10)
    assert w.write_file("c", "x" * 9).startswith("c: created")
    assert "no more are allowed" in w.write_file("d", "")
    assert w.write_file("b", "").startswith("b: replaced")
    assert w.write_file("c", "x" * 10).startswith("c: replaced")


def test_content_that_is_no_text_is_refused() -> None:
    w = Workspace({})
    for content in (None, 3, b"x", "a\0b", "\ud800"):
        assert w.write_file("a", content).startswith("error: a: ")  # type: ignore[arg-type]
    assert w.snapshot() == {}


def test_a_file_cannot_be_a_folder_as_well() -> None:
    w = Workspace({"a/b": "x"})
    assert "is a folder" in w.write_file("a", "x")
    assert "a/b is a file" in w.write_file("a/b/c", "x")
    assert "is a folder" in w.read_file("a")


def test_a_misspelt_name_is_answered_with_the_nearest_one() -> None:
    assert "Did you mean src/stock.py" in Workspace(FILES).read_file("src/stok.py")


def test_a_long_file_is_read_in_pages_that_together_are_the_file() -> None:
    text = "".join(f"line {i}\u2028\f\n" for i in range(1, 400))
    w = Workspace({"long.txt": text}, limits=Limits(output_chars=500))
    got, start = "", 1
    while True:
        page = w.read_file("long.txt", start)
        if "[cut: go on with start_line=" not in page:
            break
        body, _, note = page.rpartition("[cut: go on with start_line=")
        got, start = got + body, int(note.split(";")[0])
    assert got + page == text
    assert w.read_file("long.txt", 10_000).startswith("error: ")
    assert w.read_file("long.txt", 0).startswith("error: ")


def test_every_answer_is_bounded() -> None:
    limits = Limits(output_chars=400)
    w = Workspace({f"f{i:03}.txt": "needle " * 200 + "\n" * 60 for i in range(150)}, limits=limits)
    for answer in (w.list_files(), w.read_file("f000.txt"), w.search_files("needle")):
        assert len(answer) < limits.output_chars + 150
    assert "more lines" in Workspace({"a": "needle\n" * 80}).search_files("needle")


@pytest.mark.parametrize(
    "files", [{"../a": "x"}, {"a": "x", "a/b": "y"}, {"a": "x\0"}, {"./a": "x", "a": "y"}, {"a": "x" * 10**6}]
)
def test_a_task_whose_own_files_break_a_rule_is_refused_with_the_file_named(files: dict[str, str]) -> None:
    with pytest.raises(SandboxError, match="sandbox file "):
        Workspace(files)


@pytest.mark.parametrize("value", [0, -1, True, "10", None])
def test_a_limit_that_is_no_number_above_zero_is_refused(value: object) -> None:
    with pytest.raises(SandboxError, match="limit seconds"):
        Limits(seconds=value)  # type: ignore[arg-type]


def test_a_thousand_workspaces_take_well_under_a_second_of_processor_time() -> None:
    files = {f"src/module_{i}.py": "x = 1\n" * 40 for i in range(8)}
    began = time.process_time()
    for _ in range(1000):
        w = Workspace(files, readonly=["tests/*"])
        w.read_file("src/module_1.py")
        w.edit_file("src/module_1.py", FILES["notes.txt"], "y")
        w.write_file("src/module_2.py", "y = 2\n")
    assert time.process_time() - began < 1.0
