"""What packages bring by entry point: found by name, loaded when asked for, named when it does not load."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from cilab.core import plugins
from cilab.core.errors import CilabWarning, PluginError, StudyError
from cilab.running import play
from cilab.show import show
from cilab.show.rows import View
from cilab.testing import message, run, study

GROUP = "cilab.benchmarks"


@pytest.fixture
def brings(monkeypatch):
    """Sets the entry points that are there: name -> value."""

    def use(*entries):
        points = EntryPoints(EntryPoint(name, value, GROUP) for name, value in entries)
        monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))
        for cached in (plugins.names, plugins.load, plugins.optional):
            cached.cache_clear()

    yield use
    monkeypatch.undo()
    for cached in (plugins.names, plugins.load, plugins.optional):
        cached.cache_clear()


def test_ours_are_there_and_names_are_known_before_anything_is_loaded(brings):
    assert {"maze", "teamwork"} <= set(plugins.names(plugins.BENCHMARKS))
    assert {"release", "inspect", "table", "labels", "reviews"} <= set(plugins.names(plugins.IMPORTERS))
    brings(("b", "no_such_module:x"), ("a", "json:dumps"))
    assert list(plugins.Found(GROUP)) == ["a", "b"] and "b" in plugins.Found(GROUP)


def test_what_does_not_load_is_an_error_of_one_line_where_it_is_asked_for(brings):
    brings(("b", "no_such_module:x"), ("a", "json:dumps"))
    found = plugins.Found(GROUP)
    assert found["a"]([1]) == "[1]"
    with pytest.raises(PluginError, match=r"^cilab.benchmarks: b of .* does not load \(ModuleNotFoundError: "):
        found["b"]
    with pytest.raises(PluginError, match=r"nothing is called 'aa'\. Did you mean a\? There are: a, b"):
        plugins.load(GROUP, "aa")
    with pytest.raises(KeyError):
        found["aa"]


def test_where_one_can_do_without_it_is_a_warning_once(brings):
    brings(("b", "no_such_module:x"), ("a", "json:dumps"))
    with pytest.warns(CilabWarning, match="b of a package"):
        assert set(plugins.loaded(GROUP)) == {"a"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert set(plugins.loaded(GROUP)) == {"a"} and plugins.optional(GROUP, "c") is None


def test_one_name_of_two_packages_is_refused_with_both(brings):
    brings(("a", "json:dumps"), ("a", "json:loads"))
    with pytest.raises(PluginError, match=r"two packages bring 'a' \(.*json:dumps.*json:loads.*\)\. Uninstall one\."):
        plugins.names(GROUP)


def test_a_study_of_a_benchmark_that_does_not_load_is_one_line_with_its_place(brings, tmp_path):
    brings(("b", "no_such_module:x"))
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nblocks:\n  - benchmark: b\n", encoding="utf-8")
    with pytest.raises(StudyError, match=r"s\.yaml: blocks\[0\]\.benchmark: cilab.benchmarks: b of") as error:
        play.load_study(path)
    assert "\n" not in str(error.value)


# -- the view of a benchmark --------------------------------------------------------------------------------


class Viewed:
    """A benchmark that only has a view."""

    def __init__(self, view):
        self.view = view


def page(monkeypatch, view):
    monkeypatch.setattr(plugins, "optional", lambda group, name: Viewed(view) if group == GROUP else None)
    row = run(benchmark="mine")
    return show(study([row], messages=[message(row["run_id"])]), row["run_id"])


def test_a_page_has_the_facts_and_maps_of_its_benchmarks_view(monkeypatch):
    found = page(monkeypatch, lambda rows: View(facts={"x": ("who\x07", "me")}, maps=[("mine", "@ *")], turns=True))
    assert "who⟨U+0007⟩ me" in found.text and "Maps, mine\n  @ *" in found.text and "turn 0" in found.text
    assert "<dt>who⟨U+0007⟩</dt><dd>me</dd>" in found.html and "<h2>Maps</h2>" in found.html


def test_a_view_that_fails_is_a_note_and_the_run_is_shown(monkeypatch):
    def fails(rows):
        raise ValueError("<b>no\x1b\nmore")

    found = page(monkeypatch, fails)
    assert "The view of mine failed (ValueError: <b>no⟨U+001B⟩)." in found.text and "Hello." in found.text
    assert "&lt;b&gt;no" in found.html and "<b>no" not in found.html


def test_a_run_of_a_benchmark_that_is_not_installed_is_shown_without_a_view():
    row = run(benchmark="elsewhere")
    assert "Hello." in show(study([row], messages=[message(row["run_id"])]), row["run_id"]).text
