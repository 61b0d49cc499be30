"""The two commands, from rows to a folder and from answers to rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner, Result

from medal_judges.cli import app
from medal_judges.data_prep.annotation.answers import check, merge
from medal_judges.data_prep.annotation.label_studio import config_xml, read_label_studio
from medal_judges.data_prep.annotation.project import Project
from medal_judges.data_prep.annotation.questions import (
    Guidelines,
    dimensions_to_ask,
    load_guidelines,
    questions,
)
from medal_judges.data_prep.annotation.questions import load_guidelines as load
from medal_judges.errors import ConfigError, DataError, MedalError
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dimension import load_rubric
from medal_judges.storage.jsonl import write_records


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


def _text(path: Path) -> str:
    if path.suffix != ".xlsx":
        return path.read_text(encoding="utf-8")
    sheets = load_workbook(path).worksheets
    return str([row for sheet in sheets for row in sheet.iter_rows(values_only=True)])


def test_names_for_accounts_where_one_project_serves_all(
    label_studio: Path, tmp_path: Path
):
    folder = tmp_path / "out"
    done = run(
        "export", label_studio / "rows.jsonl", "--out", folder, "--form", "label-studio"
    )
    assert done.exit_code == 0
    tasks = json.loads(
        (folder / "package/label_studio/tasks.json").read_text(encoding="utf-8")
    )
    assert "assigned_to" not in tasks[0]["data"]
    values = {
        d.name: "yes" if d.kind == "binary" else "3" for d in load_rubric("medal")
    }
    for number, task in enumerate(tasks):
        result = [
            {"from_name": k, "value": {"choices": [v]}} for k, v in values.items()
        ]
        task |= {"id": number, "annotations": [{"completed_by": 7, "result": result}]}
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    out = tmp_path / "a.jsonl"
    done = run(
        "import", folder, tmp_path / "export.json", "--out", out, "--name", "7=eva"
    )
    assert done.exit_code == 0, done.exception
    assert {tuple(row.extra["annotators"]) for row in read_labelled(out)} == {("eva",)}


def test_what_cannot_be_exported(label_studio: Path, tmp_path: Path) -> None:
    folder = exported(label_studio, tmp_path / "out")
    again = run("export", label_studio / "rows.jsonl", "--out", folder)
    assert "holds an annotation project already" in str(again.exception)
    form = run(
        "export", label_studio / "rows.jsonl", "--out", tmp_path / "b", "--form", "ods"
    )
    assert form.exit_code == 2 and "label-studio" in form.output
    turns = [
        {**row.to_record(), "level": "turn"}
        for row in read_labelled(label_studio / "rows.jsonl")
    ]
    write_records(tmp_path / "turns.jsonl", turns)
    turn = run("export", tmp_path / "turns.jsonl", "--out", tmp_path / "c")
    assert "3 rows judge one turn" in str(turn.exception)
    lost = run(
        "import", tmp_path, label_studio / "ana.json", "--out", tmp_path / "x.jsonl"
    )
    assert "give the folder that medal annotate export wrote" in str(lost.exception)


def test_guidelines_cover_every_question_and_are_in_the_package(
    label_studio: Path, tmp_path: Path
):
    text = (
        exported(label_studio, tmp_path / "out") / "package/guidelines.md"
    ).read_text("utf-8")
    for question in questions(dimensions_to_ask(human_likeness=True), load()):
        assert question.dimension.definition in text
        binary = question.dimension.kind == "binary"
        assert bool(question.mark and question.leave) is binary
        assert len(question.grades) == (0 if binary else 5)
        for said in (question.mark, question.leave, *question.grades):
            assert said in text


def test_a_rubric_of_ones_own_needs_no_guidelines(tmp_path: Path) -> None:
    own = "dimensions: [{name: small_talk, kind: ordinal, low: 0, high: 2, definition: Likes it.}]"
    (tmp_path / "own.yaml").write_text(own)
    (asked,) = questions(dimensions_to_ask(str(tmp_path / "own.yaml")), load())
    assert (asked.title, asked.answers) == ("Small talk", ("0", "1", "2")) and asked.ask
    rubric = "dimensions: [{name: warmth, kind: continuous, low: 0, high: 1}]"
    (tmp_path / "mine.yaml").write_text(rubric)
    with pytest.raises(ConfigError, match="continuous"):
        dimensions_to_ask(str(tmp_path / "mine.yaml"))
    short = Guidelines.model_validate(
        load().model_dump() | {"dimensions": {"overall": {"grades": ["bad", "good"]}}}
    )
    with pytest.raises(
        ConfigError, match="2 grades, but its scale 1 to 5 has 5 levels"
    ):
        questions(dimensions_to_ask(), short)


def interface(project: Project) -> str:
    guidelines = load_guidelines()
    return config_xml(questions(list(project.dimensions), guidelines), guidelines.asks)


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
    checked, problems = check(answers, project)
    # ana skipped one task and left a draft of another
    (left,) = problems
    assert left.startswith("annotator 'ana': 2 of 3 dialogues")
    found = {row.dialogue.lang: row for row in merge(checked, project)}
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
        *(
            f'[{{"data": {{}}, "annotations": [{{"result": [{result}]}}]}}]'
            for result in (
                '{"from_name": "x", "type": "brushlabels", "value": {"rle": [1]}}',
                '{"from_name": "x", "value": {}}',
                '{"from_name": "x", "value": 5}',
                '{"from_name": ["x"], "value": {"rating": 5}}',
                "null",
            )
        ),
    ],
)
def test_another_file_is_refused_by_name(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"other\.json") as error:
        list(read_label_studio(path))
    assert "Export, JSON" in str(error.value)
