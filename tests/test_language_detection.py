"""Languages of chats that state none: right or unknown, not wrong; codes in all their spellings."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges import Judge, read_dialogues, read_judgements
from medal_judges.cli import app
from medal_judges.errors import MedalError, MissingExtraError
from medal_judges.reading.language_detection import detected_language
from medal_judges.records.dialogue import language_code

from .talks import talk

pytest.importorskip("lingua", reason="lingua is in the extra lang")

SPANISH = (
    "¿Dónde está mi pedido? Lo compré hace dos semanas.",
    "Su pedido llega mañana por la tarde.",
)
ENGLISH = (
    "Where is my order? I bought it two weeks ago.",
    "Your order arrives tomorrow afternoon.",
)


@pytest.mark.parametrize(
    "turns, language",
    [
        (SPANISH, "es"),
        (ENGLISH, "en"),
        (("请问我的订单在哪里？", "您的订单明天到。"), "zh"),
        (("注文はどこですか？", "明日届きます。"), "ja"),
        (
            (
                "Hvor er ordren min? Jeg kjøpte den for to uker siden.",
                "Den kommer i morgen.",
            ),
            "no",
        ),
        (("Ok", "Ok"), None),
        (("Hi", "[image]"), None),
        (
            (
                "12345 67890",
                "https://example.org/a/very/long/address/without/any/words",
            ),
            None,
        ),
        ((SPANISH[0], ENGLISH[1]), None),  # each in a language of their own
        ((SPANISH[0], SPANISH[1], *ENGLISH, *ENGLISH), None),  # changes in the middle
        (('<div class="message" style="color: red">请问我的订单在哪里？</div>',), "zh"),
        ((), None),
    ],
)
def test_a_chat_is_in_a_language_or_it_cannot_be_told(
    turns: tuple[str, ...], language: str | None
):
    assert detected_language(talk(*turns)) == language


@pytest.mark.parametrize(
    "name", ["xdial_conture_dialogue.jsonl.gz", "xdial_fed_dialogue.jsonl.gz"]
)
def test_human_chats_in_ten_languages(name: str) -> None:
    data = os.environ.get("MEDAL_JUDGES_DATA")
    if not data:
        pytest.skip("MEDAL_JUDGES_DATA is not set")
    found: dict[str, Counter[str]] = {}
    for number, dialogue in enumerate(read_dialogues(Path(data) / name)):
        if number % 5 == 0:
            answer = detected_language(dialogue)
            verdict = {None: "unknown", dialogue.lang: "right"}.get(answer, "wrong")
            found.setdefault(dialogue.lang, Counter())[verdict] += 1
    assert len(found) == 10
    for counts in found.values():
        assert not counts["wrong"] and counts["right"] > 0.85 * counts.total()


@pytest.mark.parametrize(
    "value, code",
    [
        *[
            ("zh-CN", "zh"),
            ("ja_JP", "ja"),
            ("EN-us", "en"),
            ("es-419", "es"),
            ("English", "en"),
        ],
        *[("zh-Hant", "zh-hant"), ("zh_Hant_TW", "zh-hant"), ("sr-Latn-RS", "sr-latn")],
        *[
            ("yue", "yue"),
            (" German ", "de"),
            (None, "und"),
            ("", "und"),
            ("unknown", "und"),
        ],
        *[("Scots Gaelic", "gd"), ("Bokmal", "nb"), ("Twi", "twi")],
    ],
)
def test_codes_in_all_their_spellings(value: object, code: str) -> None:
    assert language_code(value) == code


def write_judge(folder: Path, languages: str) -> Path:
    path = folder / "judge.yaml"
    path.write_text(Path("configs/judges/length.yaml").read_text() + languages)
    return path


def test_detected_languages_are_written_kept_and_counted(tmp_path: Path) -> None:
    chats = [
        talk(*SPANISH, id="a"),
        talk(*ENGLISH, id="b"),
        talk("Ok", "Ok", id="c"),
        talk(*SPANISH, id="d", lang="pt"),
    ]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(each.to_record()) + "\n" for each in chats))

    def run(
        *options: str, languages: str = ""
    ) -> list[tuple[str | None, str | None, object]]:
        judge = write_judge(tmp_path, languages)
        given = [
            "score",
            str(source),
            "--judge",
            str(judge),
            "--out",
            str(out),
            "--overwrite",
        ]
        done = CliRunner().invoke(app, [*given, "--min-coverage", "0", *options])
        assert done.exit_code == 0, done.stderr
        told = "whose language is detected: es (1), en (1)"
        rows = [*read_judgements(out)]
        assert (told in done.stderr) == any(row.detected_language for row in rows)
        kept = [row.meta.get("lang") for row in rows]
        return [
            (row.detected_language, row.unknown_language, lang)
            for row, lang in zip(rows, kept, strict=True)
        ]

    nothing = (None, None, None)
    assert run() == [nothing] * 4  # a judge of any language, and nobody asked
    found = [("es", None, "es"), ("en", None, "en"), nothing, (None, None, "pt")]
    assert run("--keep", "lang") == found
    assert run("--detect-language", "--keep", "lang") == found
    only = run("--no-detect-language", "--keep", "lang")
    assert only == [nothing, nothing, nothing, (None, None, "pt")]
    english = run(languages="languages: [en]\n")
    assert english == [
        ("es", "es", None),
        ("en", None, None),
        nothing,
        (None, "pt", None),
    ]
    run("--unknown-language", "refuse", languages="languages: [en]\n")
    assert [row.scored for row in read_judgements(out)] == [False, True, True, False]


def test_without_the_extra_nothing_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medal_judges.models.base.judge.find_spec", lambda name: None)
    judge = Judge.from_pretrained("configs/judges/length.yaml")
    judge.languages = ("en",)
    (told,) = judge.score([talk(*SPANISH)])
    assert told.detected_language is None and told.unknown_language is None
    with pytest.raises(
        MissingExtraError, match=r"lingua-language-detector.*\n.*\[lang\]"
    ):
        judge.score([talk(*SPANISH)], detect_language=True)
    assert "lingua" in sys.modules  # it is there: only the look for it was turned away


@pytest.mark.parametrize(
    ("first", "then", "refused"),
    [
        ("--detect-language", "--no-detect-language", True),
        ("--detect-language", "--detect-language", False),
        ("", "--unknown-language refuse", True),
        ("--unknown-language refuse", "", True),
        ("--unknown-language refuse", "--retry-failed", False),
    ],
)
def test_a_file_made_by_another_rule_for_languages_is_not_resumed(
    tmp_path: Path, first: str, then: str, refused: bool
) -> None:
    chats = [talk("Ok", "Ok", id="a"), talk(*SPANISH, id="b"), talk(*ENGLISH, id="c")]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(each.to_record()) + "\n" for each in chats))
    judge = write_judge(tmp_path, "languages: [en]\n")
    given = [
        "score",
        str(source),
        "--judge",
        str(judge),
        "--out",
        str(out),
        "--level",
        "turn",
    ]
    given += ["--min-coverage", "0"]
    assert CliRunner().invoke(app, [*given, *first.split()]).exit_code == 0
    before = out.read_bytes()
    done = CliRunner().invoke(app, [*given, *then.split()])
    if refused:
        assert isinstance(done.exception, MedalError), done.output
        assert "by another rule for languages" in str(done.exception)
        assert f"now:   {then or '--unknown-language warn'}\n" in str(done.exception)
        assert out.read_bytes() == before
    else:
        assert done.exit_code == 0, (done.output, done.exception)
        assert len({row.judge for row in read_judgements(out)}) == 1
