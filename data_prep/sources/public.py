"""Readers of sets in the form in which their projects publish them; each yields the rows."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from medal_judges.data_prep.sources.source import source
from medal_judges.models.model_files import packaged_file
from medal_judges.records.dialogue import Dialogue, Role, Turn, language
from medal_judges.records.labelled import LabelledDialogue, Level, Scale, choose_split
from medal_judges.storage.files import read_json

_ROLES: tuple[Role, Role] = ("user", "assistant")
_CONTURE_SCALES = {"overall": (1.0, 5.0), "consistent": (0.0, 1.0)}
_DIALOGUE_EVAL_MODELS = {
    "A": "biencoder",
    "B": "polyencoder",
    "C": "kvmemnn",
    "D": "seq2seq",
    "E": "lan_model",
    "QualityControl": "quality_control",  # catches careless workers
}
_XDIAL_LANGUAGES = ("ar", "de", "en", "es", "fr", "hi", "ja", "ko", "ru", "zh")


def make_row(
    id: str,
    turns: Iterable[Turn],
    ratings: Mapping[str, Sequence[object]],
    scales: Mapping[str, Scale | None],
    *,
    source: str,
    group: str,
    model: str | None = None,
    lang: str = "en",
    split: str | None = None,
    **fields: Any,
) -> LabelledDialogue:
    """Returns a labelled row for the dialogue ``turns``.

    Args:
        id: The id of the row.
        turns: The turns, in order.
        ratings: Dimension -> one rating for each annotator, such as ``{"overall": [4, 5]}``. A
            rating that is not a number, such as "N/A", becomes None.
        scales: Dimension -> scale (low, high), None if unknown.
        source: The name of the data set.
        group: The name of the conversation.
        model: The name of the chatbot, None if unknown.
        lang: The language, such as ``en``.
        split: ``train``, ``validation`` or ``test``. If None, a hash of ``group`` chooses it.
        fields: Further fields of LabelledDialogue, such as ``level="turn"``.
    """
    models = {} if model is None else {"assistant": model}
    labels = {}
    for name, values in ratings.items():
        labels[name] = tuple(
            float(v) if isinstance(v, int | float) else None for v in values
        )
    return LabelledDialogue(
        dialogue=Dialogue(
            id=id,
            turns=tuple(turns),
            lang=lang,
            source=source,
            models=models,
        ),
        labels=labels,
        scales={name: scales[name] for name in ratings},
        split=split or choose_split(group, seed=0),
        group=group,
        **fields,
    )


def alternating_turns(texts: Sequence[str], last: Role) -> tuple[Turn, ...]:
    """Returns a turn for each of ``texts``, with user and assistant in alternation.

    Args:
        last: The role of the last turn, from which the roles of the others follow.
    """
    start = len(texts) + _ROLES.index(last) + 1
    return tuple(Turn(_ROLES[(start + i) % 2], text) for i, text in enumerate(texts))


def _nonblank_lines(text: str) -> list[str]:
    """Returns the lines of ``text`` that are not blank, stripped."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def read_fed(path: Path, *, level: Level) -> Iterator[LabelledDialogue]:
    """Yields the rows of the data set FED that have the given ``level``.

    Args:
        path: The file fed_data.json as published.
        level: ``dialogue`` for whole dialogues. ``turn`` for dialogues that end with a rated reply.
    """
    scales = {"overall": (0.0, 4.0)} | dict.fromkeys(
        ("consistent", "understandable"), (0.0, 1.0)
    )
    group = row = 0
    for entry in read_json(path):
        is_turn = "response" in entry
        if is_turn == (level == "turn"):
            kind = "turn" if is_turn else "dial"
            ratings = {}
            for question, answers in entry["annotations"].items():
                ratings[question.lower().replace(" ", "_")] = answers
            yield make_row(
                f"fed-{kind}-{row:04d}",
                _parse_turns(entry["context"] + "\n" + entry.get("response", "")),
                ratings,
                {name: scales.get(name, (0.0, 2.0)) for name in ratings},
                source="fed",
                group=f"fed-{group:04d}",
                model=entry["system"],
                level=level,
                split="test",
            )
            row += 1
        group += not is_turn  # the replies of a chat come before its whole dialogue


def _parse_turns(text: str) -> Iterator[Turn]:
    """Yields the turns in ``text``. A turn begins with ``User:`` or ``System:`` (the assistant) at
    the start of a line, and continues until the next such line."""
    _, *parts = re.split(r"^(User|System):", text, flags=re.MULTILINE)
    for mark, content in zip(parts[::2], parts[1::2], strict=True):
        role: Role = "user" if mark == "User" else "assistant"
        yield Turn(role, content.strip())


def read_conture(path: Path, *, level: Level) -> Iterator[LabelledDialogue]:
    """Yields the rows of the data set ConTurE that have the given ``level``.

    The file names no chatbots and no splits. A hash of the dialogue's id chooses the split.

    Args:
        path: The file data/data.json as published.
        level: ``dialogue`` for whole dialogues with ratings on all dimensions. ``turn`` for
            dialogues that end with a rated reply: 0 (dislike), 1 or 2 (like).
    """
    for entry in read_json(path):
        number = f"{entry['dialog_id']:04d}"
        group = f"conture-{number}"
        turns: list[Turn] = []
        for exchange in entry["turns"]:
            user = exchange["user"].removeprefix("User:").strip()
            assistant = exchange["chatbot"].removeprefix("Chatbot:").strip()
            turns += [Turn("user", user), Turn("assistant", assistant)]
        if level == "dialogue":
            ratings = _conture_ratings(entry["dialog_ratings"])
            yield make_row(
                f"conture-dial-{number}",
                turns,
                ratings,
                {name: _CONTURE_SCALES.get(name, (1.0, 3.0)) for name in ratings},
                source="conture",
                group=group,
            )
            continue
        for i, exchange in enumerate(entry["turns"]):
            yield make_row(
                f"conture-turn-{number}-{i:02d}",
                turns[: 2 * i + 2],
                {"overall": [exchange["overall impression"]]},
                {"overall": (0.0, 2.0)},
                source="conture",
                group=group,
                level=level,
                aggregated=True,
            )


def _conture_ratings(
    answers: Sequence[Mapping[str, object]],
) -> dict[str, list[object]]:
    """Returns the ratings of one dialogue in ConTurE.

    Args:
        answers: For each annotator, question -> rating.

    Returns:
        Dimension -> list of ratings, one for each annotator.
    """
    ratings = {}
    for question in answers[0]:
        name = (
            "overall" if question == "human (overall)" else question.replace(" ", "_")
        )
        ratings[name] = [answer.get(question) for answer in answers]
    return ratings


@source("dialogue_eval")
def read_dialogue_eval(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the rows of Dialogue-Eval's file dialogue_data/pass_free(run1).json at ``path``.

    Labels are z scores, standardised for each crowd worker. ``overall`` is the mean of the other
    dimensions. A hash of the worker chooses the split, so the dialogues of one worker stay
    together.
    """
    workers: dict[str, str] = {}
    number = 0
    for hit in read_json(path):
        worker = workers.setdefault(hit["WorkerId"], f"worker-{len(workers):04d}")
        for chat in hit["data"]:
            scores = chat["z scores"]
            scores = scores | {"overall": sum(scores.values()) / len(scores)}
            system, *suffix = chat["model"].split("_p")
            turns = []
            for exchange in chat["dialogue"]:
                turns.append(Turn("user", exchange["user"].strip()))
                turns.append(Turn("assistant", exchange["bot"].strip()))
            yield make_row(
                f"dialogue-eval-dial-{number:04d}",
                turns,
                {name: [score] for name, score in scores.items()},
                dict.fromkeys(scores),
                source="dialogue_eval",
                group=f"dialogue-eval-{number:04d}",
                model=_DIALOGUE_EVAL_MODELS[system] + "_p" * len(suffix),
                split=choose_split(worker, seed=0),
            )
            number += 1


@source("topical_chat")
def read_topical_chat(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the rows of UniEval's file topical_chat.json at ``path``. Each is a dialogue that ends
    with a reply.

    The labels are the mean human ratings of that reply, from the USR paper.
    """
    scales: dict[str, Scale] = {
        "understandability": (0.0, 1.0),
        "naturalness": (1.0, 3.0),
        "coherence": (1.0, 3.0),
        "engagingness": (1.0, 3.0),
        "groundedness": (0.0, 1.0),
        "overall": (1.0, 5.0),
    }
    contexts: dict[str, int] = {}
    for number, entry in enumerate(read_json(path)):
        context = contexts.setdefault(entry["source"], len(contexts))
        knowledge = entry["context"].strip()
        extra = {} if knowledge in ("", "_nofact") else {"knowledge": knowledge}
        texts = _nonblank_lines(f"{entry['source']}\n{entry['system_output']}")
        yield make_row(
            f"topical-chat-{number:04d}",
            alternating_turns(texts, "assistant"),
            {name: [score] for name, score in entry["scores"].items()},
            scales,
            source="topical_chat_usr",
            group=f"topical-chat-ctx-{context:04d}",
            model=entry["system_id"],
            level="turn",
            split="test",
            aggregated=True,
            extra=extra,
        )


@source("xdial_fed")
def read_xdial_fed(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the rows of xDial-Eval's file data/dial/fed-dial.csv at ``path``, in ten languages.

    Only the English dialogues were rated. A translation gets the mean rating of its English
    dialogue.
    """
    csv.field_size_limit(10_000_000)
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for lang in _XDIAL_LANGUAGES:
        column = f"{language(lang).name.lower()}_dial"
        for number, row in enumerate(rows):
            yield make_row(
                f"xdial-fed-{lang}-{number:04d}",
                alternating_turns(_nonblank_lines(row[column]), "user"),
                {"overall": [float(row["ratings"])]},
                {"overall": (0.0, 4.0)},
                source="xdial-fed",
                group=f"fed-{number:04d}",
                lang=lang,
                split="test",
                aggregated=True,
                extra={"overlaps": f"fed-dial-{number:04d}"},
            )


@source("chitchat")
def read_chitchat(path: Path | None = None) -> Iterator[LabelledDialogue]:
    """Yields conversations between two students, with one student's ratings from 1 to 10 as labels.

    Whoever writes first has the role ``user``. Conversations in which only one student wrote are
    skipped.

    Args:
        path: JSON file of the conversations. By default the file in the package chitchat-dataset.
    """
    for id, conversation in read_json(path or packaged_file("chitchat")).items():
        messages = chain.from_iterable(conversation["messages"])
        turns: list[Turn] = []
        first_sender = None
        for sender, run in groupby(messages, key=lambda message: message["sender"]):
            first_sender = first_sender or sender
            text = "\n".join(message["text"].strip() for message in run)
            role: Role = "user" if sender == first_sender else "assistant"
            turns.append(Turn(role, text))
        if len(turns) < 2:
            continue
        participant_ratings = conversation.get("ratings") or {}
        ratings = {}
        for name in ("witty", "upbeat", "interesting"):
            if participant_ratings.get(name):
                ratings[name] = [float(participant_ratings[name])]
        row = make_row(
            f"chitchat-{id}",
            turns,
            ratings,
            dict.fromkeys(ratings, (1.0, 10.0)),
            source="chitchat",
            group=f"chitchat-{id}",
            model="person",
            split=choose_split(id, seed=0),
        )
        models = {"user": "person", "assistant": "person"}
        context = {}
        if conversation.get("prompt"):
            context["scene"] = conversation["prompt"]
        yield replace(
            row, dialogue=replace(row.dialogue, models=models, context=context)
        )


LEVELS: tuple[Level, ...] = ("dialogue", "turn")
for _level in LEVELS:
    source(f"fed_{_level}s")(partial(read_fed, level=_level))
    source(f"conture_{_level}s")(partial(read_conture, level=_level))
