"""Label Studio: the interface that a real one accepted, blind tasks, and its own exports."""

import json
from pathlib import Path
from typing import Any

import pytest

from medal_judges.data_prep.annotation.answers import check, merge
from medal_judges.data_prep.annotation.label_studio import config_xml, read_label_studio
from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import load_guidelines, questions
from medal_judges.errors import DataError


def interface(project: Project) -> str:
    guidelines = load_guidelines()
    return config_xml(questions(list(project.dimensions), guidelines), guidelines.asks)


def test_the_interface_is_the_one_that_label_studio_accepted(project: Project, label_studio: Path):
    accepted = (label_studio / "config.xml").read_text(encoding="utf-8")
    assert interface(project) == accepted, "changed: run it through Label Studio, see README.md"


def test_a_real_export_comes_back_as_labels(project: Project, label_studio: Path) -> None:
    answers = [
        a for name in ("ana", "ben") for a in read_label_studio(label_studio / f"{name}.json")
    ]
    checked, problems = check(answers, project)
    # ana skipped one task and left a draft of another
    (left,) = problems
    assert left.startswith("annotator 'ana': 2 of 3 dialogues")
    found = {row.dialogue.lang: row for row in merge(checked, project)}
    both = found["pt"]
    assert both.extra["annotators"] == ["ana", "ben"]
    assert both.labels["unsafe"] == (1, 0) and both.labels["repetitive"] == (0, 1)
    assert both.labels["overall"] == (2, 3) and both.labels["user_human_likeness"] == (4, 5)
    said = both.extra["annotator_comments"]["ana"]["other_text"]
    assert said == '=SUM(1) is no "answer" – 不是回答'
    assert found["zh"].extra["annotators"] == ["ben"]
    assert found["zh"].extra["annotator_comments"] == {"ben": {"comment": "through the API"}}


def answer(values: dict[str, str], **more: Any) -> dict[str, Any]:
    result = [
        {"from_name": k, "to_name": "dialogue", "type": "choices", "value": {"choices": [v]}}
        for k, v in values.items()
    ]
    return {"id": 1, "completed_by": 1, "was_cancelled": False, "result": result} | more


def test_who_answered_is_the_account_where_nothing_was_assigned(project: Project, tmp_path: Path):
    key = next(iter(project.rows))
    given = [
        answer({"unsafe": "yes"}, completed_by=3),
        answer({"unsafe": "no"}, completed_by={"id": 4, "email": "eva@example.org"}),
        answer({"unsafe": "no"}, was_cancelled=True),
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps([{"id": 1, "data": {"key": key}, "annotations": given}]))
    found = list(read_label_studio(path))
    assert [a.annotator for a in found] == ["account-3", "eva@example.org"]
    assert found[0].values == {"unsafe": "yes"}


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '[{"id": 1}]', '[{"id": 1, "data": {}, "annotations": [{}]}]']
)
def test_another_file_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"other\.json") as error:
        list(read_label_studio(path))
    assert "Export, JSON" in str(error.value)
