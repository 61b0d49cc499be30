"""The two commands, from rows to a folder and from answers to rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner, Result

from medal_judges.cli import app
from medal_judges.data_prep.annotation.answers import merge_ratings, parse_annotations
from medal_judges.data_prep.annotation.label_studio import config_xml, read_label_studio
from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import (
    load_guidelines,
    make_questions,
)
from medal_judges.errors import ConfigError, DataError, MedalError
from medal_judges.reading.dialogues import read_labelled


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["annotate", *map(str, arguments)])


def exported(label_studio: Path, folder: Path, *more: str) -> Path:
    people = ("--annotator", "ana", "--annotator", "ben", "--human-likeness")
    done = run("export", label_studio / "rows.jsonl", "--out", folder, *people, *more)
    assert done.exit_code == 0, done.output
    return folder


def test_label_studio_there_and_back(label_studio: Path, tmp_path: Path) -> None:
    folder = exported(label_studio, tmp_path / "out")
    handed = folder / "package" / "label_studio"
    tasks = json.loads((handed / "tasks-ana.json").read_text(encoding="utf-8"))
    real = json.loads((label_studio / "ana.json").read_text(encoding="utf-8"))
    assert [t["data"] for t in tasks] == [t["data"] for t in real]
    exports = (label_studio / "ana.json", label_studio / "ben.json")
    out = tmp_path / "annotated.jsonl"
    refused = run("import", folder, *exports, "--out", out, "--strict")
    assert isinstance(refused.exception, MedalError) and not out.exists()
    assert str(refused.exception).startswith(
        "1 problems in the answers:\n    annotator 'ana'"
    )
    done = run("import", folder, *exports, "--out", out)
    assert done.exit_code == 0 and "3 of 3 dialogues, 2 annotators" in done.output
    assert "2 of 3 dialogues are not annotated" in done.stderr
    rows = list(read_labelled(out))
    assert [len(row.labels["overall"]) for row in rows] == [1, 2, 1]
    agreed = CliRunner().invoke(app, ["agreement", str(out)])
    assert agreed.exit_code == 0, agreed.output


def test_nothing_handed_out_names_who_spoke(label_studio: Path, tmp_path: Path) -> None:
    folder = exported(label_studio, tmp_path / "out")
    secrets = ("secretbot", "usermodel", "ctx-", "written-by-hand")
    kept = (folder / "rows.jsonl").read_text(encoding="utf-8")
    assert all(word in kept for word in secrets)  # what could be given away is there
    paths = [path for path in (folder / "package").rglob("*") if path.is_file()]
    assert len(paths) == 7  # guidelines; config, instructions and tasks; sheets
    for path in paths:
        text = path.name + _text(path)
        assert not any(word in text for word in secrets)


def test_the_guidelines_name_the_setting() -> None:
    chat, support = load_guidelines(), load_guidelines(setting="support")
    assert "for company" in chat.intro[0] and "to help" in support.intro[0]
    assert chat.intro[1:] == support.intro[1:]
    with pytest.raises(ConfigError, match="no setting 'shop'"):
        load_guidelines(setting="shop")


def _text(path: Path) -> str:
    if path.suffix != ".xlsx":
        return path.read_text(encoding="utf-8")
    sheets = load_workbook(path).worksheets
    return str([row for sheet in sheets for row in sheet.iter_rows(values_only=True)])


def interface(project: Project) -> str:
    guidelines = load_guidelines()
    return config_xml(make_questions(project.dimensions, guidelines), guidelines.asks)


def test_the_interface_is_the_one_that_label_studio_accepted(
    project: Project, label_studio: Path
):
    accepted = (label_studio / "config.xml").read_text(encoding="utf-8")
    assert interface(project) == accepted, (
        "changed: run it through Label Studio, see README.md"
    )


def test_a_real_export_comes_back_as_labels(
    project: Project, label_studio: Path
) -> None:
    answers = [
        a
        for name in ("ana", "ben")
        for a in read_label_studio(label_studio / f"{name}.json")
    ]
    checked, problems = parse_annotations(answers, project)
    # ana skipped one task and left a draft of another
    (left,) = problems
    assert left.startswith("annotator 'ana': 2 of 3 dialogues")
    found = {row.dialogue.lang: row for row in merge_ratings(checked, project)}
    both = found["pt"]
    assert both.extra["annotators"] == ["ana", "ben"]
    assert both.labels["unsafe"] == (1, 0) and both.labels["repetitive"] == (0, 1)
    assert both.labels["overall"] == (2, 3) and both.labels["user_human_likeness"] == (
        4,
        5,
    )
    said = both.extra["annotator_comments"]["ana"]["other_text"]
    assert said == '=SUM(1) is no "answer" – 不是回答'
    assert found["zh"].extra["annotators"] == ["ben"]
    assert found["zh"].extra["annotator_comments"] == {
        "ben": {"comment": "through the API"}
    }


def answer(values: dict[str, str], **more: Any) -> dict[str, Any]:
    result = [
        {
            "from_name": k,
            "to_name": "dialogue",
            "type": "choices",
            "value": {"choices": [v]},
        }
        for k, v in values.items()
    ]
    return {"id": 1, "completed_by": 1, "was_cancelled": False, "result": result} | more


def test_who_answered_is_the_account_where_nothing_was_assigned(
    project: Project, tmp_path: Path
):
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
    "text",
    [
        *("{", "{}", "[1]", '[{"id": 1}]'),
        '[{"id": 1, "data": {}, "annotations": [{}]}]',
    ],
)
def test_another_file_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"other\.json") as error:
        list(read_label_studio(path))
    assert "Export, JSON" in str(error.value)
