"""The protocol of MEDAL, sections 3.1 and C.2, with scripted agents."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.reading.dialogues import read_labelled

from .runs import AGENTS, generate, lines


@dataclass
class Asked:
    """Requests as the server saw them, each once however often it was sent."""

    users: list[dict[str, Any]]
    judge: list[dict[str, Any]]
    bots: list[dict[str, Any]]


def asked(bodies: list[dict[str, Any]]) -> Asked:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for body in bodies:
        found[body["model"].partition("-")[0]].append(body)
    return Asked(found["user"], found["judge"], found["bot"])


def candidate(body: dict[str, Any]) -> str:
    """The message that a request to the user judge is about."""
    last = body["messages"][-1]["content"].splitlines()[-1]
    assert last.startswith("user: ")
    return str(last.removeprefix("user: "))


def test_a_run_keeps_to_the_protocol(tmp_path: Path) -> None:
    n, bots = 10, 5
    users = {f"user-{k}": {"model": f"user-{k}"} for k in (1, 2)}
    more = {"languages": ["de", "zh"], "contexts": {"n": n}, "users": users}
    run, agents = generate(tmp_path, bots=bots, **more)
    found = asked(agents.bodies)
    assert len(agents.bodies) == len({json.dumps(body) for body in agents.bodies})
    dialogues = list(read_labelled(tmp_path / "dialogues.jsonl"))
    rejected = lines(tmp_path / "rejected.jsonl")
    openers = {f"{c.id}--{user}" for c, user in run.openers.values()}
    assert len(openers) == 4 * n
    _first_turns_are_shared(dialogues, openers, rejected, bots)
    _tries_are_counted(dialogues, rejected, found)
    _ends_have_their_reason(dialogues, rejected)
    _the_user_sees_context_and_feedback(found, rejected, run.openers)
    _the_judge_sees_context_and_dialogue(found, run.openers)
    _the_chatbot_sees_the_dialogue_alone(found, dialogues, run.openers)
    _decoding_is_the_papers(found)


def _first_turns_are_shared(
    dialogues: list[Any], openers: set[str], rejected: list[dict[str, Any]], bots: int
) -> None:
    first: dict[str, set[str]] = defaultdict(set)
    speakers: dict[str, list[str]] = defaultdict(list)
    for row in dialogues:
        opener, _, bot = row.id.rpartition("--")
        first[opener].add(row.dialogue.turns[0].content)
        speakers[opener].append(bot)
        assert row.dialogue.models == {
            "user": opener.rpartition("--")[2],
            "assistant": bot,
        }
    failed = {r["id"] for r in rejected if r["turn"] == 0 and r["attempt"] == 10}
    assert set(first) == openers - failed
    assert all(len(texts) == 1 for texts in first.values())
    assert all(
        sorted(names) == [f"bot-{k}" for k in range(bots)]
        for names in speakers.values()
    )


def _tries_are_counted(
    dialogues: list[Any], rejected: list[dict[str, Any]], found: Asked
) -> None:
    attempts: dict[tuple[str, int], list[int]] = defaultdict(list)
    for line in rejected:
        attempts[line["id"], line["turn"]].append(line["attempt"])
    for (_, turn), numbers in attempts.items():
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
        assert len(numbers) <= (5 if turn else 10)
    for row in dialogues:
        opener = row.id.rpartition("--")[0]
        users = [i for i, t in enumerate(row.dialogue.turns) if t.role == "user"]
        if row.extra["ended"] == "user" and len(row.extra["tries"]) > len(users):
            users.append(len(row.dialogue.turns))  # it ended by the bare mark
        for place, tries in zip(users, row.extra["tries"], strict=True):
            assert tries == 1 + len(attempts[opener if place == 0 else row.id, place])
    accepted = sum(len(row.extra["tries"]) - 1 for row in dialogues)
    accepted += len({row.id.rpartition("--")[0] for row in dialogues})
    by_rule = [r for r in rejected if r["by"] == "rule"]
    assert len(found.users) == accepted + len(rejected)
    assert len(found.judge) == accepted + len(rejected) - len(by_rule)
    replies = [
        t for row in dialogues for t in row.dialogue.turns if t.role == "assistant"
    ]
    assert len(found.bots) == len(replies)


def _ends_have_their_reason(
    dialogues: list[Any], rejected: list[dict[str, Any]]
) -> None:
    given_up = {
        (r["id"], r["turn"]) for r in rejected if r["turn"] and r["attempt"] == 5
    }
    ended = Counter(row.extra["ended"] for row in dialogues)
    # the script brings each of them about
    assert set(ended) == {"cap", "user", "rejected"}
    for row in dialogues:
        turns = row.dialogue.turns
        assert [t.role for t in turns] == (["user", "assistant"] * 5)[: len(turns)]
        assert (row.extra["ended"] == "cap") == (len(turns) == 10)
        assert (row.extra["ended"] == "rejected") == ((row.id, len(turns)) in given_up)
        assert all(AGENTS["END"] not in t.content for t in turns)
        for turn in turns[2::2]:
            mark = (
                f" {AGENTS['END']}"
                if row.extra["ended"] == "user" and turn is turns[-1]
                else ""
            )
            assert AGENTS["verdict"](turn.content + mark).strip("*").startswith("Yes")


def _the_user_sees_context_and_feedback(
    found: Asked, rejected: list[dict[str, Any]], openers: dict[str, Any]
) -> None:
    contexts = [context for context, _ in openers.values()]
    for body in found.users:
        shown = body["messages"][-1]["content"]
        assert any(c.scene in shown and c.persona in shown for c in contexts)
        assert ("German" in shown) != ("Chinese" in shown)
    # After each rejection but the last of a turn the user agent is shown all of that turn so far,
    # in their order and with their reasons.
    turned_down: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
    expected: Counter[tuple[tuple[str, str], ...]] = Counter()
    for line in sorted(rejected, key=lambda r: r["attempt"]):
        attempts = turned_down[line["id"], line["turn"]]
        attempts.append((line["text"] or "(an empty message)", line["reason"]))
        if line["attempt"] < (5 if line["turn"] else 10):
            expected[tuple(attempts)] += 1
    told = Counter(_attempts(body["messages"][-1]["content"]) for body in found.users)
    del told[()]
    assert told == expected and max(map(len, told)) > 1


def _attempts(shown: str) -> tuple[tuple[str, str], ...]:
    parts = (part.splitlines() for part in shown.split("The attempt: ")[1:])
    return tuple((p[0], p[1].removeprefix("Why it was turned down: ")) for p in parts)


def _the_judge_sees_context_and_dialogue(found: Asked, openers: dict[str, Any]) -> None:
    contexts = [context for context, _ in openers.values()]
    for body in found.judge:
        shown = body["messages"][-1]["content"]
        assert any(c.scene in shown and c.persona in shown for c in contexts)
        assert ("German" in shown) != ("Chinese" in shown)
        before, _, message = shown.partition("The message to check:")
        roles = [line.partition(":")[0] for line in before.splitlines() if ": " in line]
        said = [role for role in roles if role in ("user", "assistant")]
        assert said == (["user", "assistant"] * 5)[: len(said)] and len(said) % 2 == 0
        assert message.strip() == f"user: {candidate(body)}"
        assert candidate(body) == AGENTS["END"] or candidate(body).startswith("Message")


def _the_chatbot_sees_the_dialogue_alone(
    found: Asked, dialogues: list[Any], openers: dict[str, Any]
) -> None:
    texts = {
        tuple((t.role, t.content) for t in row.dialogue.turns) for row in dialogues
    }
    prefixes = {turns[:k] for turns in texts for k in range(1, len(turns))}
    for body in found.bots:
        system, *chat = body["messages"]
        assert system["role"] == "system"
        assert tuple((m["role"], m["content"]) for m in chat) in prefixes
        whole = json.dumps(body, ensure_ascii=False)
        for context, _ in openers.values():
            secrets = (context.scene, context.persona, context.country, context.id)
            assert not any(secret in whole for secret in secrets)


def _decoding_is_the_papers(found: Asked) -> None:
    def settings(body: dict[str, Any]) -> tuple[Any, ...]:
        names = ("temperature", "top_p", "presence_penalty", "max_tokens")
        return tuple(body.get(name) for name in names)

    first = {
        settings(b) for b in found.users if "The conversation so far" not in str(b)
    }
    later = {settings(b) for b in found.users if "The conversation so far" in str(b)}
    assert first == {(1.5, 1.0, 0.6, 512)}
    assert later == {(0.9, 0.95, 0.0, 512)}
    assert {settings(b) for b in found.judge} == {(0.1, 1.0, 0.0, 64)}
    assert {settings(b) for b in found.bots} == {(0.9, 0.95, 0.0, 512)}
