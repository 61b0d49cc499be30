"""Prompts and follow-ups of a user in each paper's layout, and what then still differs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import load_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig, JudgeConfig
from medal_judges.eval.benchmark.files import with_files
from medal_judges.eval.benchmark.published import (
    DIFFERS,
    _marks,
    _method,
    _shipped,
    read_published,
    text_hash,
)
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import ChatRequest, Completion

from ..talks import ChatModel, talk
from .benchmark_case import medal
from .test_published_table import add_published, published_lines

TALK = talk("Hi!", "Hello. How are you?", "Fine.", "Good to hear.")
LINES = "{a}: Hi!\n{b}: Hello. How are you?\n{a}: Fine."
LAST = "\n{b}: Good to hear."

# Each paper's layout, with a word in the place of each of its texts.
MEEP = """
name: meep
answer: {format: number, line: any}
parts:
  role: "{role}"
  turn: |-
    TASK from 0 to 100.

    CONTEXT: {dialogue}

    RESPONSE: {response}

    SCORE:
  dialogue: |-
    WHOLE from 0 to 100. DIALOGUE: {dialogue} SCORE:
layouts:
  paper: {system: [role], turn: [turn], dialogue: [dialogue]}
roles: {expert: ROLE}
aspects: {engagingness: {scale: [0, 100], whole: false}}
variants: {naive: {}, hd: {scale: [1, 3], whole: true}, meep: {}, meep_sa: {}}
"""
MEDAL = """
name: medal
user: user
assistant: assistant
answer: {format: json, score: label, comment: comment}
parts:
  instructions: |-
    TASK, ISSUES, RATING
    {"unsafe": {"label": 0/1}, "overall_quality_rating": {"label": 1-5}}
  conversation: |-
    DIALOGUE
    {dialogue}
layouts:
  together: {ask: together, system: [instructions], dialogue: [conversation]}
aspects: {overall: {key: overall_quality_rating}}
"""
ORALIS = """
name: oralis
answer: {format: number, line: any}
assistant: Chatbot
parts:
  text: |-
    {criteria}

    {dialogue}
layouts:
  paper: {dialogue: [text]}
aspects:
  trust: {scale: [0, 5], criteria: "ROLE, TRUST (0-5), CONVERSATION:"}
  empathy: {scale: [1, 12], criteria: "ROLE, EMPATHY (1-12), CONVERSATION:"}
variants: {zero_shot: {}, few_shot: {examples: 3}}
"""
GEVAL = """
name: geval
answer: {format: number}
assistant: Chatbot
parts:
  turn: |-
    TASK, CRITERIA, STEPS
    HISTORY:
    {dialogue}
    RESPONSE:
    {response}
  prefill: "FORM:"
layouts:
  question_first: {turn: [turn]}
"""
GPTSCORE = GEVAL.replace("name: geval", "name: gptscore").replace("number", "none")
SELECTION = """
name: diet_selection
parts:
  text: |-
    CONTEXT
    INSTRUCTION {target}
    {dialogue}
    OPTIONS:
    {options}
    CLOSING
  turn: LAST of this
  dialogue: this
  again: NUMBERS
layouts: {plain: {dialogue: [text]}}
"""


class Asked(ChatModel):
    """Keeps what it is asked, and answers the same each time."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.requests: list[ChatRequest] = []

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        self.requests += requests
        return [Completion(self.answer)] * len(requests)


def spoken(user: str, assistant: str, text: str) -> str:
    return text.replace("{a}", user).replace("{b}", assistant)


@pytest.mark.parametrize(
    ("judge", "file", "level", "options", "answer", "sent"),
    [
        (
            *("paper_meep", MEEP, "last", {}, "70"),
            [
                "ROLE",
                f"TASK from 0 to 100.\n\nCONTEXT: {LINES}\n\nRESPONSE: Good to hear.\n\n"
                "SCORE:",
            ],
        ),
        (
            *("paper_meep", MEEP, "dialogue", {"role": "none"}, "70"),
            [f"WHOLE from 0 to 100. DIALOGUE: {LINES}{LAST} SCORE:"],
        ),
        (
            *("medal", MEDAL, "dialogue", {"fence": False, "enforce": False}),
            '{"unsafe": {"label": 0, "comment": ""}, '
            '"overall_quality_rating": {"label": 4, "comment": "So."}}',
            [
                "TASK, ISSUES, RATING\n"
                '{"unsafe": {"label": 0/1}, "overall_quality_rating": {"label": 1-5}}',
                f"DIALOGUE\n{LINES}{LAST}",
            ],
        ),
        (
            *("oralis", ORALIS, "dialogue"),
            {"layout": "paper", "fence": False, "dimensions": ["trust"]},
            *("4", [f"ROLE, TRUST (0-5), CONVERSATION:\n\n{LINES}{LAST}"]),
        ),
    ],
    ids=["meep, a turn, +R", "meep, a dialogue", "medal", "oralis"],
)
def test_a_prompted_judge_sends_the_files_words_and_nothing_else(
    judge: str,
    file: str,
    level: Any,
    options: Mapping[str, Any],
    answer: str,
    sent: list[str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes((file + "\n\n").replace("\n", "\r\n").encode())  # as on Windows
    if judge == "medal":
        options = {**options, "dimensions": ["unsafe", "overall"]}
    llm = Asked(answer)
    loaded = Judge.from_pretrained(
        f"configs/judges/{judge}.yaml", prompts=str(path), llm=llm, **options
    )
    (judgement,) = loaded.score([TALK], level=level)
    assert None not in judgement.scores.values(), judgement
    (request,) = llm.requests
    assistant = "Chatbot" if judge == "oralis" else "Assistant"
    names = ("user", "assistant") if judge == "medal" else ("User", assistant)
    assert [m.content for m in request.messages] == [spoken(*names, s) for s in sent]
    assert request.schema is None
    name = loaded.dimensions[0].name
    wording = loaded.wording(name, turn=level == "last")["prompt"]
    shown = "\n".join(sent).replace(LINES + LAST, "{dialogue}")
    shown = shown.replace(LINES, "{dialogue}").replace("Good to hear.", "{response}")
    assert text_hash(wording) == text_hash(shown)


@pytest.mark.parametrize(("judge", "file"), [("geval", GEVAL), ("gptscore", GPTSCORE)])
def test_the_baselines_send_the_files_words(
    judge: str, file: str, tiny_lm: LocalModel, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(file)
    options = {"layout": "question_first", "dimensions": ["engagingness"]}
    loaded = Judge.from_pretrained(
        f"configs/judges/{judge}.yaml", prompts=str(path), llm=tiny_lm, **options
    )
    assert next(loaded.score([TALK], level="last")).scores["engagingness"] is not None
    wording = loaded.wording("engagingness", turn=True)["prompt"]
    assert " ".join(wording.split()) == (
        "TASK, CRITERIA, STEPS HISTORY: {dialogue} RESPONSE: {response} FORM:"
    )


def test_diet_takes_its_selection_and_its_follow_ups_from_files(
    tiny_lm: LocalModel, tmp_path: Path
) -> None:
    prompts, pool = tmp_path / "selection.yaml", tmp_path / "pool.yaml"
    prompts.write_text(SELECTION)
    pool.write_bytes(
        b"name: craft\r\nfollow_ups:\r\n  - text: ONE.\r\n  - text: 'TWO '\r\n\r\n"
    )
    files = {"prompts": str(prompts), "followups": str(pool)}
    loaded = Judge.from_pretrained("configs/judges/diet.yaml", llm=tiny_lm, **files)
    for is_turn, target in ((True, "LAST of this"), (False, "this")):
        wording = loaded.wording("overall", turn=is_turn)
        assert " ".join(wording["prompt"].split()) == (
            f"CONTEXT INSTRUCTION {target} {{dialogue}} OPTIONS: {{options}} CLOSING"
        )
        assert wording["pool"] == "negative: ONE.\nnegative: TWO"
    for judge in ("fed", "full"):
        pool.write_text("name: x\nfollow_ups: [{text: ONE.}]\n")  # a pool of one
        path = f"configs/judges/{judge}.yaml"
        options = {"llm": tiny_lm, "followups": str(pool), "dimensions": ["overall"]}
        one = Judge.from_pretrained(path, **options)
        assert next(one.score([TALK])).scores["overall"] is not None


@pytest.mark.parametrize(
    ("judge", "setting", "file", "told"),
    [
        ("paper_meep", "prompts", MEEP.replace("{dialogue}", "-"), r"\{dialogue\}"),
        ("geval", "prompts", GEVAL.replace("{dialogue}", "-"), r"\{dialogue\}"),
        ("diet", "prompts", SELECTION.replace("{options}", "-"), r"\{options\}"),
        ("paper_meep", "prompts", MEEP.replace("{dialogue}", "{talk}"), r"\{talk\}"),
        (
            "diet",
            "followups",
            "name: x\nfollow_ups: [{text: A b.}, {text: A  b.}]",
            "'A b.' .* twice",
        ),
        ("fed", "followups", "name: x\nfollow_ups: []", "needs a follow-up"),
        (
            "full",
            "followups",
            "name: x\nfollow_ups: [{text: '  '}]",
            "at least 1 character",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(
    judge: str, setting: str, file: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(file)
    options = {setting: str(path), "llm": Asked("1")}
    with pytest.raises(ConfigError, match=rf"(?s)mine\.yaml.*{told}"):
        Judge.from_pretrained(f"configs/judges/{judge}.yaml", **options)


# -- in a benchmark --------------------------------------------------------------------------------


def benchmark_with(name: str, **files: Any) -> BenchmarkConfig:
    config = load_config(BenchmarkConfig, f"benchmark/{name}")
    return with_files(
        BenchmarkConfig.model_validate(config.model_dump(exclude_unset=True) | files)
    )


def test_a_file_replaces_the_shipped_one_of_its_name_in_all_judges(
    tmp_path: Path,
) -> None:
    texts = {"meep": MEEP, "geval": GEVAL, "oralis": ORALIS, "craft": "name: craft"}
    paths = {name: str(tmp_path / f"{name}.yaml") for name in texts}
    for name, text in texts.items():
        Path(paths[name]).write_text(text)
    config = benchmark_with("paper_meep", prompts=[paths["meep"], paths["geval"]])
    given = {judge.name: judge.options.get("prompts") for judge in config.judges}
    assert given.pop("geval") == paths["geval"]
    assert {given.pop(name) for name in ("gptscore", "unieval", "endex")} == {None}
    assert len(given) >= 8 and set(given.values()) == {paths["meep"]}

    config = benchmark_with("paper_diet", followups=paths["craft"])  # a single file
    given = {judge.name: judge.options.get("followups") for judge in config.judges}
    assert given["CRAFT, joint"] == paths["craft"] and given["fed"] is None
    assert given["SELFMAP, joint"] == "followups/selfmap"

    config = benchmark_with("paper_oralis", prompts=[paths["oralis"]])
    hybrids = [judge for judge in config.judges if judge.options.get("members")]
    assert hybrids
    for hybrid in hybrids:
        members = hybrid.options["members"].values()
        prompted = [m for m in members if m["path"] == "configs/judges/oralis.yaml"]
        assert prompted
        assert {m["options"]["prompts"] for m in prompted} == {paths["oralis"]}


@pytest.mark.parametrize(
    ("setting", "names", "told"),
    [
        ("prompts", ["nobody"], "0.yaml replaces prompts/nobody, which no judge"),
        ("followups", ["meep"], "0.yaml replaces followups/meep, which no judge"),
        ("prompts", ["meep", "meep"], "1.yaml both replace prompts/meep"),
    ],
)
def test_a_file_that_no_judge_reads_is_refused(
    setting: str, names: Sequence[str], told: str, tmp_path: Path
) -> None:
    paths = []
    for number, name in enumerate(names):
        paths.append(str(tmp_path / f"{number}.yaml"))
        Path(paths[-1]).write_text(f"name: {name}\n")
    with pytest.raises(ConfigError, match=told):
        benchmark_with("paper_meep", **{setting: paths})


# -- what differs ----------------------------------------------------------------------------------


def test_every_published_row_says_what_differs_or_that_nothing_does() -> None:
    file = read_yaml("published")
    for name, method in file["methods"].items():
        if " of " not in name:
            assert (method.get("same") is True) != bool(method.get("differs")), name
    for row in read_published():
        assert set(row["differs"]) <= set(file["marks"]), row
        assert set(row["hashes"]) <= set(row["differs"]), row


def craft(model: str = "Vicuna-13B-v1.5") -> dict[str, Any]:
    wanted = ("diet/craft-cll", model)
    return next(r for r in read_published() if (r["key"], r["model"]) == wanted)


def test_the_papers_own_text_takes_its_mark_away() -> None:
    config = load_config(BenchmarkConfig, "benchmark/paper_diet")
    judge = config.judges[0]
    texts = {"prompt": "Choose “one”:\r\n{options} ", "pool": "negative: A."}
    row = craft() | {"differs": ["prompt", "pool", "data"]}
    assert _marks(row, judge, texts) == ["prompt", "pool", "data"]
    row["hashes"] = {"prompt": [text_hash('Choose "one": {options}')]}
    assert _marks(row, judge, texts) == ["pool", "data"]
    row["hashes"]["pool"] = ["0", text_hash(texts["pool"])]
    assert _marks(row, judge, texts) == ["data"]
    assert (
        "pool" in craft()["hashes"] and "pool" not in craft("Qwen-14B-Chat")["hashes"]
    )


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"llm": "lmsys/vicuna-13b-v1.5", "followups": "x.yaml"}, False),
        ({"reduce": "mean"}, True),
        ({"select": {"runs": 1}}, True),
    ],
)
def test_another_setting_than_the_papers_is_a_mark(
    changed: Mapping[str, Any], differs: bool
) -> None:
    config = load_config(BenchmarkConfig, "benchmark/paper_diet")
    judge = config.judges[0]
    judge = judge.model_copy(update={"options": {**judge.options, **changed}})
    assert ("settings" in _marks(craft(), judge, {})) == differs


def test_other_rows_than_the_papers_are_a_mark() -> None:
    config = load_config(BenchmarkConfig, "benchmark/paper_diet")
    shipped = _shipped("sets", "fed")
    for set_config in config.sets:
        if set_config.published_as == "fed":
            assert _method(set_config) in shipped
            for change in ({"limit": 40}, {"source": "fed40.jsonl"}, {"langs": ["en"]}):
                assert _method(set_config.model_copy(update=change)) not in shipped


def test_the_models_of_a_hybrid_are_its_method() -> None:
    config = load_config(BenchmarkConfig, "benchmark/paper_oralis")
    key = "oralis/lm prompting"
    row = next(row for row in read_published() if row["key"] == key)
    judge = next(judge for judge in config.judges if judge.published_as == key)
    assert "settings" not in _marks(row, judge, {})
    other = JudgeConfig(name="x", path=judge.path, options={"members": {}})
    assert "settings" in _marks(row, other, {})


def test_the_mark_and_its_words_are_on_the_page_and_in_the_terminal(
    folder: Path,
) -> None:
    add_published(folder, judge="model: o3, published_as: medal", published="[medal]")
    done = medal()
    assert done.exit_code == 0, done.exception
    ours = {line["Their model"]: line[DIFFERS] for line in published_lines(folder)}
    assert ours["o3"] == "prompt, settings, data" and ours["GPT-5"] == "prompt"
    page = (folder / "out/report.html").read_text("utf-8")
    for text in (" ".join(done.stdout.split()), page):
        assert "prompt: the prompt is in our words" in text
        assert "settings: the judge has other settings" in text
        assert "does not reproduce" in text and "pool:" not in text
