"""A hostile support log, made up and seeded: what a company's chats look like on a bad day.

Every row that is made here says what reading has to count of it, so that a test can hold the sums
against what the command says.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Message = dict[str, Any]
LANGUAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "en": (
        (
            "Where is my order? I bought the lamp two weeks ago and nothing has come.",
            "That is not what I asked. Please look at the number once more.",
            "The invoice you sent me has the wrong address on it.",
        ),
        (
            "I am sorry for the delay. Your parcel left our warehouse this morning.",
            "Thank you for your patience, I have corrected the address for you.",
            "You can return it within thirty days, free of charge.",
        ),
    ),
    "ar": (
        ("أين طلبي؟ اشتريت المصباح قبل أسبوعين ولم يصل شيء.", "هذا ليس ما سألت عنه."),
        (
            "نعتذر عن التأخير. غادر طردك المستودع هذا الصباح.",
            "يمكنك إعادته خلال ثلاثين يومًا.",
        ),
    ),
    "zh": (
        (
            "我的订单在哪里？我两周前买的台灯还没有到。",
            "这不是我问的问题，请再查一次。",
        ),
        ("很抱歉让您久等，您的包裹今天早上已经发出。", "您可以在三十天内免费退货。"),
    ),
    "es": (
        (
            "¿Dónde está mi pedido? Compré la lámpara hace dos semanas.",
            "No es lo que pregunté.",
        ),
        (
            "Lamento el retraso. Su paquete salió esta mañana del almacén.",
            "Puede devolverlo gratis.",
        ),
    ),
}
EMOJI = ("😡", "👍🏽", "🙂", "👨‍👩‍👧")
HTML = (
    "<p>{}</p>",
    '<div class="m">{}<br/></div>',
    "<script>alert(1)</script>{}",
    "{}&nbsp;<b>!</b>",
)
CODES = ("\x1b[31m{}\x1b[0m", "{}\x00", "\u202e{}", "=HYPERLINK({})")
LONG = 1 << 20
# What is broken -> the line's bytes, of a row that is right.
BROKEN: dict[str, Callable[[Message], bytes]] = {
    "cut short": lambda row: json.dumps(row).encode()[:-9],
    "no JSON": lambda row: b"2026-11-22 09:14:03 ERROR upstream timed out",
    "control codes": lambda row: b"\x00\x1b[2J",
    "nested too deep": lambda row: b"[" * 5000,
    "null": lambda row: b"null",
    "no chat": lambda row: b'{"subject": "no chat", "status": "open"}',
    "id a flag": lambda row: json.dumps(row | {"id": True}).encode(),
    "not UTF-8": lambda row: (
        json.dumps(row | {"note": "X"}).encode().replace(b'"X"', b'"\xff"')
    ),
    "half a pair": lambda row: json.dumps(row).encode()[:-1] + rb', "note": "\ud83d"}',
    "no number": lambda row: (
        json.dumps(row | {"cost": "N"}).replace('"N"', "9" * 5000).encode()
    ),
    "unknown role": lambda row: _with(
        row, {"role": "narrator", "content": "Later that day"}
    ),
    "unknown part": lambda row: _with(
        row, {"role": "user", "content": [{"type": "hologram"}]}
    ),
    "part a list": lambda row: _with(row, {"role": "user", "content": [["7"]]}),
    "content an object": lambda row: _with(
        row, {"role": "user", "content": {"type": "hologram"}}
    ),
    "no messages": lambda row: json.dumps(row | {"messages": []}).encode(),
    "messages a text": lambda row: json.dumps(row | {"messages": "gone"}).encode(),
    "nothing said": lambda row: json.dumps(
        row | {"messages": [{"role": "system", "content": "Be kind."}]}
    ).encode(),
    "two assistants": lambda row: _with(
        row,
        {"role": "assistant", "content": "a", "name": "x"},
        {"role": "assistant", "content": "b", "name": "y"},
    ),
}


@dataclass(slots=True)
class SupportLog:
    """What was written: all ``rows``, those ``broken`` by kind, chats without an answer, ids that
    are ``missing`` or ``doubled``, and what of the others' messages is ``folded``."""

    rows: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    missing: int = 0
    doubled: int = 0
    long: int = 0
    folded: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)

    @property
    def readable(self) -> int:
        return self.rows - self.broken.total()


def write_support_log(
    path: Path, count: int = 5000, *, seed: int = 0, long: int = 10, size: int = LONG
) -> SupportLog:
    """Write ``count`` chats as OpenAI messages, one a line: 3% of them broken, ``long`` of them
    with a turn of ``size`` characters; blank lines between some."""
    draw = random.Random(seed)
    log = SupportLog()
    kinds = list(BROKEN)
    ids: list[str] = []
    with path.open("wb") as stream:
        for number in range(count):
            broken = kinds[number // 33 % len(kinds)] if number % 33 == 16 else None
            counted: Counter[str] = Counter()
            row = _row(draw, number, counted)
            if (
                number % max(1, count // max(long, 1)) == 7
                and broken is None
                and log.long < long
            ):
                log.long += 1
                row["messages"].append(
                    {"role": "user", "content": "so very long " * (size // 13)}
                )
                counted["turns merged into the one before"] += (
                    row["messages"][-2]["role"] == "user"
                )
            log.rows += 1
            if broken is not None:
                log.broken[broken] += 1
                stream.write(BROKEN[broken](row) + b"\n")
                continue
            log.folded += counted
            log.languages[row["language"]] += 1
            log.unanswered += not any(m["role"] == "assistant" for m in row["messages"])
            if number % 50 == 3:
                del row["id"]
                # Equal chats would have equal ids made of them.
                row["messages"].append(
                    {"role": "user", "content": f"I am number {number}."}
                )
                log.missing += 1
            elif number % 60 == 5 and ids:
                row["id"] = draw.choice(ids)
                log.doubled += 1
            else:
                ids.append(row["id"])
            stream.write(json.dumps(row, ensure_ascii=number % 2 == 0).encode() + b"\n")
            stream.write(b"\n" if number % 40 == 0 else b"")
    return log


def _row(draw: random.Random, number: int, folded: Counter[str]) -> Message:
    lang = draw.choice([*LANGUAGES])
    questions, answers = LANGUAGES[lang]
    messages: list[Message] = []
    if draw.random() < 0.6:
        messages.append(
            {"role": draw.choice(["system", "developer"]), "content": "You help."}
        )
        folded["system prompts"] += 1
    for turn in range(1 if number % 70 == 9 else draw.randrange(1, 6)):
        question = _dressed(draw, draw.choice(questions), turn)
        messages.append({"role": "user", "content": _parts(draw, question, folded)})
        if number % 70 == 9:  # nobody answered
            break
        if draw.random() < 0.3:
            messages += _tools(draw, f"call-{turn}")
            folded["tool calls"] += 1
            folded["tool results"] += 1
        if draw.random() < 0.05:
            messages.append(
                {"role": "assistant", "content": draw.choice(["", "  \n", None])}
            )
            folded["empty turns left out"] += 1
        answer = _dressed(draw, draw.choice(answers), turn)
        messages.append({"role": "assistant", "content": _parts(draw, answer, folded)})
    return {
        "id": f"ticket-{number}",
        "version": f"2.{number % 3}",
        "language": lang,
        "time": f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00Z",
        "user": {"plan": draw.choice(["free", "paid"])},
        "messages": messages,
    }


def _dressed(draw: random.Random, text: str, turn: int) -> str:
    """``text`` with what logs have around it, different in each turn."""
    for chance, forms in ((0.2, HTML), (0.05, CODES)):
        if draw.random() < chance:
            text = draw.choice(forms).format(text)
    return f"{text} {draw.choice(EMOJI)}" if draw.random() < 0.3 else f"{text} ({turn})"


def _parts(draw: random.Random, text: str, folded: Counter[str]) -> object:
    """A text, or its content parts; now and then with a picture before it."""
    if draw.random() < 0.7:
        return text
    parts: list[object] = [{"type": "text", "text": text}]
    if draw.random() < 0.3:
        folded["gaps [image]"] += 1
        parts.insert(
            0, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        )
    return parts


def _tools(draw: random.Random, key: str) -> list[Message]:
    arguments = json.dumps({"order": draw.randrange(10**6)})
    call = {
        "id": key,
        "type": "function",
        "function": {"name": "find", "arguments": arguments},
    }
    result = json.dumps([{"status": "sent"}] * draw.randrange(4))
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": result, "tool_call_id": key},
    ]


def _with(row: Message, *messages: Message) -> bytes:
    return json.dumps(row | {"messages": [*row["messages"], *messages]}).encode()
