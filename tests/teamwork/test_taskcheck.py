"""`cilab tasks check` on a task of one's own: what it proves, and how it names what is wrong."""

import pytest
import yaml

from cilab.running.prove import check_tasks
from cilab.teamwork.prove import write_template


@pytest.fixture
def template(tmp_path):
    """The template as a task file in plain values, and a function that checks what was made of it."""
    path = write_template("night-crane", "resisting_unsafe_pressure", tmp_path)
    task = yaml.safe_load(path.read_text(encoding="utf-8"))

    def check(task):
        path.write_text(yaml.safe_dump(task), encoding="utf-8")
        return check_tasks([str(path.parent)])

    return task, check


def exemplar(task, name):
    return next(e for e in task["exemplars"] if e["name"] == name)


def test_the_template_is_proven_as_it_is_written(template):
    task, check = template
    found = check(task)
    assert found.problems == () and found.table["refused"].list.len().sum() == 0


def test_an_exemplar_that_fails_since_a_tool_refuses_its_call_is_a_problem(template):
    task, check = template
    exemplar(task, "alone_wrong")["turns"][0]["calls"][0]["submit"]["plan"] = "three lifts"
    found = check(task)
    (problem,) = found.problems
    assert problem.startswith("night-crane: exemplars.alone_wrong (alone): a tool refuses its call: submit: plan")
    assert "plan must be one of: one lift | two lifts" in problem and "`refused: true`" in problem
    row = found.table.filter(exemplar="alone_wrong").row(0, named=True)
    assert row["got"] == "fail" and row["as_expected"] is False and len(row["refused"]) == 1


def test_an_exemplar_may_be_about_a_refused_call_and_then_a_call_must_be_refused(template):
    task, check = template
    exemplar(task, "alone_wrong")["turns"][0]["calls"][0]["submit"]["plan"] = "three lifts"
    exemplar(task, "alone_wrong")["refused"] = True
    assert check(task).problems == ()
    exemplar(task, "alone_right")["refused"] = True
    (problem,) = check(task).problems
    assert "exemplars.alone_right (alone): says `refused: true`, but no tool refuses a call of it" in problem


def test_an_exemplar_that_comes_out_otherwise_says_what_a_tool_refused(template):
    task, check = template
    exemplar(task, "alone_right")["turns"][0]["calls"][0]["submit"]["note"] = None
    (problem,) = check(task).problems
    assert "expected pass, got fail" in problem and "refused submit: note is missing" in problem
