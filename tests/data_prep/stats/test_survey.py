"""Table 2 worked by hand, on rows small enough to count on paper."""

from collections.abc import Callable

import pytest

from medal_judges.data_prep.corpus_stats.report import facts, side_table, text_table
from medal_judges.data_prep.corpus_stats.statistics import CorpusStatistics, Subset
from medal_judges.data_prep.corpus_stats.tokens import mtld
from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.sets import data_hash
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Table
from medal_judges.stats.estimate import Estimate

MakeRow = Callable[..., LabelledDialogue]


def plain(table: Table) -> dict[str, list[object]]:
    """Cells by the name of the row, estimates as their values rounded to four places."""
    return {str(row[0]): [_plain(cell) for cell in row[1:]] for row in table.rows}


def _plain(cell: Cell) -> object:
    value = cell.value if isinstance(cell, Estimate) else cell
    return round(value, 4) if isinstance(value, float) else value


@pytest.fixture
def findings(make_row: MakeRow) -> CorpusStatistics:
    """Two English dialogues, a Chinese one and a Japanese one."""
    rows = [
        make_row("1", ["one two three", "one two", "three"]),  # 3 + 2 + 1 words
        make_row("2", ["", "a b c d"], bot="bot-b"),  # 0 + 4 words
        make_row(
            "3", ["你好 吗?", "好!"], lang="zh", bot="bot-b", user="user-b"
        ),  # 4 + 2
        make_row("4", ["はい。"], lang="ja", user="user-b"),  # 3 characters, no answer
    ]
    return CorpusStatistics(rows, "by hand", lemmas=False)


def test_texts_by_language(findings: CorpusStatistics) -> None:
    table = text_table(findings, "Language", findings.langs)
    assert table.columns == (
        "Language",
        "Dialogues",
        "Turns",
        "Words a turn",
        "Characters a turn",
        "MTLD",
    )
    # Dialogue 1: six tokens, three types, one rest: 6 / ((1 - 3/6) / 0.28) = 3.36, both ways.
    # Dialogue 2 has no token twice.
    assert plain(table) == {
        "en": [2, 2.5, 2.0, None, 3.36],
        "ja": [1, 1.0, None, 3.0, None],
        "zh": [1, 2.0, None, 3.0, None],
        "all": [4, 2.0, 2.0, 3.0, 3.36],
    }


def test_texts_by_chatbot_and_by_user_model(findings: CorpusStatistics) -> None:
    by_bot = plain(text_table(findings, "Chatbot", findings.chatbots))
    assert by_bot["bot-a"][:4] == [2, 2.0, 2.0, 3.0]
    assert by_bot["bot-b"][:4] == [2, 2.0, 2.0, 3.0]
    by_user = plain(text_table(findings, "User model", findings.users))
    assert by_user["user-a"][:4] == [2, 2.5, 2.0, None]
    assert by_user["user-b"][:4] == [2, 1.5, None, 3.0]


def test_users_and_assistants_apart(findings: CorpusStatistics) -> None:
    table = side_table(findings, "Language", findings.langs)
    assert table.columns[1:7] == (
        "Turns, user",
        "Turns, assistant",
        "Words, user",
        "Words, assistant",
        "Characters, user",
        "Characters, assistant",
    )
    found = plain(table)
    # English users say 3, 1 and 0 words in three turns, assistants 2 and 4 in two.
    assert found["en"][:6] == [1.5, 1.0, 1.3333, 3.0, None, None]
    assert found["ja"][:6] == [1.0, 0.0, None, None, 3.0, None]
    # users of dialogue 1: one two three three, three types in four tokens
    assert found["en"][6] == round(4 / ((1 - 3 / 4) / 0.28), 4)


def test_an_empty_cell_has_its_reason(findings: CorpusStatistics) -> None:
    cells = {
        str(r[0]): r for r in text_table(findings, "Language", findings.langs).rows
    }
    reasons = {
        (name, i): cell.reason
        for name, row in cells.items()
        for i, cell in enumerate(row)
        if isinstance(cell, Estimate) and cell.value is None
    }
    assert all(reasons.values())
    assert (
        reasons["en", 4] == "no turn of this side in a language measured in characters"
    )
    assert "no spaces between words" in str(reasons["zh", 5])


def test_chinese_with_jieba(make_row: MakeRow) -> None:
    jieba = pytest.importorskip("jieba")
    texts = ["我喜欢公园,我们去公园吧。", "好,我也喜欢公园。"]
    found = CorpusStatistics([make_row("1", texts, lang="zh")], "zh")
    tokens = [t for text in texts for t in jieba.lcut(text) if t[0].isalnum()]
    row = plain(text_table(found, "Language", found.langs))["zh"]
    # 13 and 9 characters with the punctuation, counted by hand
    assert row[:3] == [1, 2.0, 11.0]
    assert row[3] == round(mtld(tokens) or 0, 4)


def test_data_is_named_as_in_a_benchmark(make_row: MakeRow) -> None:
    rows = [make_row("1", ["a"]), make_row("2", ["b"], labels={"unsafe": [1]})]
    assert CorpusStatistics(rows, "s", lemmas=False).data == data_hash(rows)
    assert CorpusStatistics(rows[::-1], "s", lemmas=False).data == data_hash(rows)


def test_who_labelled_and_what_failed_is_said(make_row: MakeRow) -> None:
    rows = [
        make_row("1", ["a"], labels={"unsafe": [1]}, labels_by="judge:x|rev:1"),
        make_row("2", ["b"], label_failure="no JSON", labels_by="judge:x|rev:1"),
        make_row("3", ["c"], malformed={"reasons": ["role_confusion"]}),
    ]
    said = dict(facts(CorpusStatistics(rows, "s", lemmas=False)))
    assert said["labels by"] == "judge:x|rev:1 (2 rows)"
    assert said["failures"].startswith("1 rows") and said["malformed"].startswith(
        "1 rows"
    )


def test_a_dialogue_in_two_files_is_refused(make_row: MakeRow) -> None:
    with pytest.raises(MedalError, match="'same' occurs twice"):
        CorpusStatistics(
            [make_row("same", ["a"]), make_row("same", ["b"])], "s", lemmas=False
        )


def test_many_names_are_people_and_get_no_table(make_row: MakeRow) -> None:
    rows = [make_row(str(i), ["a"], user=f"worker-{i}") for i in range(61)]
    found = CorpusStatistics(rows, "s", lemmas=False)
    assert found.users == [] and len(found.chatbots) == 1
    assert found.turns(Subset("xx")).reason == "no dialogue"
    unnamed = CorpusStatistics(
        [make_row("1", ["a"], bot=None, user=None)], "s", lemmas=False
    )
    assert unnamed.users == [] and unnamed.chatbots == []
