"""The prompts: what they must say, and that they are read from the package."""

from __future__ import annotations

import json

import pytest

from cilab.core.errors import MazeError
from cilab.maze import texts
from cilab.maze.annotate import parse_annotator_answer
from cilab.maze.grade import parse_grader_answer
from cilab.maze.grid import MazeSettings, make, parse_maps, split

MAZE = make(MazeSettings(), 3)


def test_a_pair_prompt_says_the_two_rules_the_phrase_and_shows_just_the_own_copy():
    one, two = split(MAZE)
    prompt = texts.pair_prompt(one)
    assert prompt.startswith("[user]:")
    assert parse_maps(prompt) == [one]
    assert parse_maps(texts.pair_prompt(two)) == [two]
    assert "ACTI!" in prompt
    assert "both agents have agreed" in prompt
    assert "one move" in prompt.lower()


def test_the_system_prompt_names_both_prefixes():
    assert "[user]:" in texts.system_prompt()
    assert "[other agent]:" in texts.system_prompt()


def test_no_prompt_of_an_agent_says_how_to_write_moves():
    for prompt in (texts.pair_prompt(split(MAZE)[0]), texts.solo_prompt(MAZE, True), texts.solo_prompt(MAZE, False)):
        low = prompt.lower()
        assert not any(word in low for word in ("coordinate", "(row", "(1,1)", "json", "format", "r1c1", "north"))


def test_a_solo_prompt_shows_the_whole_map_or_both_copies():
    assert parse_maps(texts.solo_prompt(MAZE, False)) == [MAZE.cells]
    assert parse_maps(texts.solo_prompt(MAZE, True)) == list(split(MAZE))


def test_graders_are_never_shown_the_maze():
    for prompt in (texts.grader_solo_prompt("my route", MAZE), texts.grader_pair_prompt("hello")):
        assert parse_maps(prompt) == []


def test_the_answers_that_graders_and_annotators_are_shown_can_be_parsed():
    assert parse_grader_answer(texts.grader_pair_prompt("hello")).moves == ("...", "...")
    assert all(row["value"] == 0 for row in parse_annotator_answer(texts.annotator_prompt("hello")))
    assert json.loads(texts.load("grader_solo").splitlines()[-1])["split_up"] is False


def test_a_transcript_with_dollar_signs_and_braces_goes_in_as_it_is():
    assert "cost $x {y} $$" in texts.grader_pair_prompt("cost $x {y} $$")


def test_every_prompt_has_its_own_hash_and_a_hash_has_only_what_is_asked_for():
    hashes = texts.hashes()
    assert set(hashes) == set(texts.NAMES)
    assert len(set(hashes.values())) == len(hashes)
    assert texts.hashes(["pair"]) == {"pair": hashes["pair"]}


def test_an_unknown_prompt_is_refused_with_the_nearest_name():
    with pytest.raises(MazeError, match=r"grader_pair"):
        texts.load("grader_pairs")
