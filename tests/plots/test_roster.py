"""Names, families and marks of models."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

from cilab.plots.parts import roster, style
from cilab.results.names import at_default, raised


def table(*rows: tuple[str, str | None, str | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"model": pl.String, "effort": pl.String, "arm": pl.String}, orient="row")


def test_a_models_default_row_has_its_bare_name() -> None:
    rows = table(
        ("a", "default", None), ("a", "high", None), ("b", None, None), ("b", "high", None), ("c", "low", None)
    )
    assert roster.row_names(rows) == ["a", "a · high", "b", "b · high", "c"]
    assert raised(rows) == [False, True, False, True, False]
    assert at_default(rows)["model"].to_list() == ["a", "b", "c"]


def test_rows_with_an_arm_are_not_at_their_default() -> None:
    rows = table(("a", None, None), ("a", None, "told to be brave"))
    assert at_default(rows)["arm"].to_list() == [None]
    assert roster.row_names(rows)[1] == "a · told to be brave"


def test_real_models_have_the_registrys_family_and_weights() -> None:
    looks = roster.looks(["GPT-6 Astra", "gpt-oss-120b", "Kimi K3", "nobody knows it"])
    assert looks["GPT-6 Astra"].color == looks["gpt-oss-120b"].color != looks["Kimi K3"].color
    assert [look.open_weights for look in looks.values()] == [False, True, True, None]
    assert [look.marker for look in looks.values()] == ["o", "D", "D", "o"]
    assert looks["nobody knows it"].family == "Other"


def test_a_family_keeps_its_colour_whoever_else_is_in_the_figure() -> None:
    alone = roster.looks(["Claude Opus 5.5"])
    among = roster.looks(["Gemini 4 Argon", "Kimi K3", "Claude Opus 5.5", "command-a"])
    assert alone["Claude Opus 5.5"] == among["Claude Opus 5.5"]
    assert len({look.color for look in among.values()}) == 4


def test_pseudonyms_have_the_look_of_their_group_and_a_frame_overrides_it() -> None:
    looks = roster.looks(["sim:F1", "sim:C2", "sim:O3", "sim/strong"])
    assert [look.family for look in looks.values()] == [
        "Frontier",
        "Closed, not frontier",
        "Open weights",
        "Simulated agents",
    ]
    facts = pl.DataFrame({"model": ["sim:F1"], "family": ["x"], "builder": ["The X lab"], "open_weights": [True]})
    assert roster.looks(["sim:F1"], facts.to_pandas())["sim:F1"].family == "The X lab"
    assert roster.looks(["sim:F1"], facts)["sim:F1"].open_weights is True


def test_nine_families_have_nine_colours() -> None:
    facts = pl.DataFrame({"model": [f"m{i}" for i in range(9)], "family": [f"family {i}" for i in range(9)]})
    colors = {look.color for look in roster.looks(facts["model"], facts).values()}
    assert len(colors) == 9


def test_groups_of_pseudonyms_differ_in_lightness() -> None:
    from matplotlib.colors import to_rgb

    light = [
        sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), to_rgb(look.color), strict=True))
        for look in roster.looks(["sim:F1", "sim:C1", "sim:O1"]).values()
    ]
    assert all(abs(a - b) > 0.15 for a, b in itertools.combinations(light, 2))


def test_the_legend_explains_diamonds_only_where_no_family_does() -> None:
    simulated = roster.legend_handles(roster.looks(["sim:F1", "sim:O1"]))
    assert [h.get_label() for h in simulated] == ["Frontier", "Open weights"]
    real = roster.legend_handles(roster.looks(["GPT-6 Astra", "gpt-oss-120b"]), ring=True)
    assert [h.get_label() for h in real] == ["OpenAI", "Open weights (diamond)", "High effort (ring)"]


def test_usual_groups_look_as_their_models_do_and_others_take_what_is_free() -> None:
    looks = roster.looks(["sim:F1", "sim:C1", "sim:O1"])
    wanted = [(look.color, look.hatch) for look in looks.values()]
    assert roster.group_looks(["frontier", "closed, not frontier", "open-weight"]) == wanted
    mixed = roster.group_looks(["mine", "open-weight", "yours", "theirs"])
    assert mixed[1] == wanted[2]
    assert len(set(mixed)) == 4


def test_open_weights_are_explained_where_no_family_is_known() -> None:
    facts = pl.DataFrame({"model": ["a", "b"], "open_weights": [True, False]})
    handles = roster.legend_handles(roster.looks(["a", "b"], facts), bars=True)
    assert [h.get_label() for h in handles] == ["Open weights (hatched)"]
    alone = roster.legend_handles(roster.looks(["Kimi K3"]))
    assert [h.get_label() for h in alone] == ["Moonshot AI", "Open weights (diamond)"]


def test_unknown_models_alone_need_no_legend() -> None:
    assert roster.legend_handles(roster.looks(["a", "b"])) == []


def test_facts_that_are_no_frame_are_refused() -> None:
    with pytest.raises(style.FigureError, match="facts: give a frame, a study or a data set, not str"):
        roster.looks(["a"], "models.csv")
