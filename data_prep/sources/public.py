"""Readers of sets in the form in which their projects publish them; each yields the rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from medal_judges.models.model_files import embedded_files
from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue, Level, Scale, hash_split

_ROLES: tuple[Role, Role] = ("user", "assistant")


def rated(
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
    """A row with ratings by dimension; one that is not a number, such as 'N/A (no errors)', is
    None. ``model`` is the chatbot; ``split`` defaults to a hash of ``group``."""
    models = {} if model is None else {"assistant": model}
    return LabelledDialogue(
        dialogue=Dialogue(id=id, turns=tuple(turns), lang=lang, source=source, models=models),
        labels={
            name: tuple(float(v) if isinstance(v, int | float) else None for v in values)
            for name, values in ratings.items()
        },
        scales={name: scales[name] for name in ratings},
        split=split or hash_split(group, seed=0),
        group=group,
        **fields,
    )


def _exchanges(pairs: Iterable[tuple[str, str]]) -> list[Turn]:
    """Turns of (user's text, assistant's text) pairs."""
    return [
        Turn(role, text.strip()) for pair in pairs for role, text in zip(_ROLES, pair, strict=True)
    ]


def _alternating(text: str, last: Role) -> tuple[Turn, ...]:
    """One turn for each line that is not blank. The file names no speakers: they alternate and end
    with ``last``."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    odd = len(lines) + _ROLES.index(last) + 1
    return tuple(Turn(_ROLES[(odd + i) % 2], line) for i, line in enumerate(lines))


def _load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_fed(path: Path, *, level: Level) -> Iterator[LabelledDialogue]:
    """FED's fed_data.json at one level. An entry without ``response`` is a whole dialogue; in
    others the judged reply is the last turn. Turns start with ``User:`` or ``System:``; other lines
    continue a turn."""
    marks: dict[str, Role] = {"User:": "user", "System:": "assistant"}
    scales = {"overall": (0.0, 4.0)} | dict.fromkeys(("consistent", "understandable"), (0.0, 1.0))
    group = row = 0
    for entry in _load(path):
        is_turn = "response" in entry
        if is_turn == (level == "turn"):
            texts: list[tuple[Role, str]] = []
            for line in (entry["context"] + "\n" + entry.get("response", "")).split("\n"):
                mark = next((m for m in marks if line.startswith(m)), None)
                if mark is not None:
                    texts.append((marks[mark], line[len(mark) :]))
                elif texts:
                    role, content = texts[-1]
                    texts[-1] = (role, f"{content}\n{line}")
            ratings = {k.lower().replace(" ", "_"): v for k, v in entry["annotations"].items()}
            yield rated(
                f"fed-{'turn' if is_turn else 'dial'}-{row:04d}",
                (Turn(role, text.strip()) for role, text in texts),
                ratings,
                {name: scales.get(name, (0.0, 2.0)) for name in ratings},
                source="fed",
                group=f"fed-{group:04d}",
                model=entry["system"],
                level=level,
                split="test",
            )
            row += 1
        group += not is_turn  # the replies of a chat come before its whole-dialogue entry


def read_conture(path: Path, *, level: Level) -> Iterator[LabelledDialogue]:
    """ConTurE's data/data.json at one level: whole dialogues, or one row for every reply with its
    vote (0 dislike, 1, 2 like).

    The public file has no splits and no chatbot names: ``split`` is by a hash of the dialogue
    (other than in the line format) and ``models`` is empty. The leak check still finds DSTC9 rows.
    """
    names = {"human (overall)": "overall"}
    scales = {"overall": (1.0, 5.0), "consistent": (0.0, 1.0)}
    for entry in _load(path):
        number = entry["dialog_id"]
        whole = _exchanges(
            (pair["user"].removeprefix("User:"), pair["chatbot"].removeprefix("Chatbot:"))
            for pair in entry["turns"]
        )
        facts: dict[str, Any] = {"source": "conture", "group": f"conture-{number:04d}"}
        if level == "dialogue":
            answers = entry["dialog_ratings"]
            ratings = {
                names.get(k, k).replace(" ", "_"): [rater.get(k) for rater in answers]
                for k in answers[0]
            }
            own = {name: scales.get(name, (1.0, 3.0)) for name in ratings}
            id = f"conture-dial-{number:04d}"
            yield rated(id, whole, ratings, own, **facts, extra=_defects(whole, level))
            continue
        for i, turn in enumerate(entry["turns"]):
            turns = whole[: 2 * i + 2]
            yield rated(
                f"conture-turn-{number:04d}-{i:02d}",
                turns,
                {"overall": [turn["overall impression"]]},
                {"overall": (0.0, 2.0)},
                **facts,
                level=level,
                aggregated=True,
                extra=_defects(turns, level),
            )


def _defects(turns: Sequence[Turn], level: Level) -> dict[str, list[str]]:
    codes = ["empty_response"] if level == "turn" and not turns[-1].content else []
    if any(not turn.content for turn in turns):
        codes.append("empty_turn")
    return {"defects": codes} if codes else {}


def read_dialogue_eval(path: Path) -> Iterator[LabelledDialogue]:
    """Dialogue-Eval's dialogue_data/pass_free(run1).json; labels are z scores per worker. Overall
    is the mean of the seven answers, not a question of its own.

    Numbers replace the workers' ids. The public file has no splits: all rows of a worker share one,
    by a hash of the worker's number (other than in the line format).
    """
    degraded = "quality_control"  # the bot that catches careless workers
    models = {
        "A": "biencoder",
        "B": "polyencoder",
        "C": "kvmemnn",
        "D": "seq2seq",
        "E": "lan_model",
        "QualityControl": degraded,
    }
    workers: dict[str, str] = {}
    number = 0
    for hit in _load(path):
        worker = workers.setdefault(hit["WorkerId"], f"worker-{len(workers):04d}")
        for chat in hit["data"]:
            raw, z = (
                scores | {"overall": sum(scores.values()) / len(scores)}
                for scores in (chat["raw scores"], chat["z scores"])
            )
            name = chat["model"]
            model = models.get(name) or models[name.removesuffix("_p")] + "_p"
            extra = {
                "raw_labels": {k: [v] for k, v in raw.items()},
                "raw_scales": {k: [0, 100] for k in raw},
                "run": "free1",
                "worker": worker,
            }
            yield rated(
                f"dialogue-eval-dial-{number:04d}",
                _exchanges((each["user"], each["bot"]) for each in chat["dialogue"]),
                {name: [score] for name, score in z.items()},
                dict.fromkeys(z),
                source="dialogue_eval",
                group=f"dialogue-eval-{number:04d}",
                model=model,
                split=hash_split(worker, seed=0),
                extra=extra | ({degraded: True} if model == degraded else {}),
            )
            number += 1


def read_topical_chat(path: Path) -> Iterator[LabelledDialogue]:
    """USR in UniEval's topical_chat.json: six replies per context, mean scores."""
    scales: dict[str, Scale] = {
        "understandability": (0.0, 1.0),
        "naturalness": (1.0, 3.0),
        "coherence": (1.0, 3.0),
        "engagingness": (1.0, 3.0),
        "groundedness": (0.0, 1.0),
        "overall": (1.0, 5.0),
    }
    contexts: dict[str, int] = {}
    for number, entry in enumerate(_load(path)):
        context = contexts.setdefault(entry["source"], len(contexts))
        knowledge = entry["context"].strip()
        yield rated(
            f"topical-chat-{number:04d}",
            _alternating(f"{entry['source']}\n{entry['system_output']}", "assistant"),
            {name: [score] for name, score in entry["scores"].items()},
            scales,
            source="topical_chat_usr",
            group=f"topical-chat-ctx-{context:04d}",
            model=entry["system_id"],
            level="turn",
            split="test",
            aggregated=True,
            extra={"knowledge": knowledge} if knowledge not in ("", "_nofact") else {},
        )


def read_xdial_fed(path: Path) -> Iterator[LabelledDialogue]:
    """xDial-Eval's data/dial/fed-dial.csv by language: one column a language, one line a turn,
    ``ratings`` the mean rating of the English dialogue.

    ``parallel_id`` is shared by the ten versions of a dialogue, ``overlaps`` is the id in FED. A
    translation that repeats although the English texts differ is marked ``not_parallel``. The file
    names no chatbots.
    """
    languages = {"ar": "arabic", "de": "german", "en": "english", "es": "spanish", "fr": "french",
                 "hi": "hindi", "ja": "japanese", "ko": "korean", "ru": "russian",
                 "zh": "chinese"}  # fmt: skip
    csv.field_size_limit(10_000_000)
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for lang, language in languages.items():
        seen: dict[tuple[Turn, ...], str] = {}
        for number, row in enumerate(rows):
            turns = _alternating(row[f"{language}_dial"], "user")
            copied = seen.setdefault(turns, row["english_dial"]) != row["english_dial"]
            ids = {
                "parallel_id": f"xdial-fed-{number:04d}",
                "overlaps": f"fed-dial-{number:04d}",
            }
            yield rated(
                f"xdial-fed-{lang}-{number:04d}",
                turns,
                {"overall": [float(row["ratings"])]},
                {"overall": (0.0, 4.0)},
                source="xdial-fed",
                group=f"fed-{number:04d}",
                lang=lang,
                split="test",
                aggregated=True,
                extra=ids | ({"defects": ["not_parallel"]} if copied else {}),
            )


def read_chitchat(path: Path | None = None) -> Iterator[LabelledDialogue]:
    """Chit-chat, the package chitchat-dataset: conversations of students with each other.

    Consecutive messages of one sender become one turn. The second speaker, also a person, is the
    assistant. ``ratings`` (1 to 10, by one of the two) become labels. Splits are 80% train, 10%
    validation and 10% test, by a hash of the id. Skips 3,150 conversations without an answer.
    """
    data = json.loads((path or embedded_files("chitchat")[0]).read_text(encoding="utf-8"))
    for id, conversation in data.items():
        messages = [m for block in conversation["messages"] for m in block]
        runs = [(who, list(run)) for who, run in groupby(messages, key=lambda m: m["sender"])]
        if len(runs) < 2:
            continue
        turns = tuple(
            Turn(
                "user" if who == runs[0][0] else "assistant",
                "\n".join(m["text"].strip() for m in run),
            )
            for who, run in runs
        )
        ratings = conversation.get("ratings") or {}
        names = ("witty", "upbeat", "interesting")
        labels = {name: (float(ratings[name]),) for name in names if ratings.get(name)}
        yield LabelledDialogue(
            dialogue=Dialogue(
                id=f"chitchat-{id}",
                turns=turns,
                lang="en",
                source="chitchat",
                models={"user": "person", "assistant": "person"},
                context={"scene": conversation["prompt"]} if conversation.get("prompt") else {},
            ),
            labels=labels,
            scales={name: (1.0, 10.0) for name in labels},
            split=hash_split(id, seed=0),
            group=f"chitchat-{id}",
        )
