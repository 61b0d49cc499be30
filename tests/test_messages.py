"""From the messages of a chat to a dialogue: what is judged, folded, marked, merged, left out."""

import doctest
import json
from collections import Counter
from typing import Any

import pytest

from medal_judges.errors import RecordError
from medal_judges.reading.messages import read_messages
from medal_judges.records import dialogue as dialogue_module
from medal_judges.records.dialogue import Dialogue, Turn


def say(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content} | more


def turns_of(*messages: dict[str, object], **options: Any) -> list[str]:
    dialogue = read_messages(messages, **options)
    return [f"{turn.role}: {turn.content}" for turn in dialogue.turns]


HELLO = [say("user", "Hi"), say("assistant", "Hello")]
ASK = say("user", "Weather in Lima?")
SUNNY = ["user: Weather in Lima?", "assistant: Sunny."]
ARGUMENTS = '{"city": "Lima"}'


def test_the_examples_run() -> None:
    assert doctest.testmod(dialogue_module).failed == 0


def part(kind: str, **more: object) -> dict[str, object]:
    return {"type": kind} | more


CITY = {"city": "Lima"}
WEATHER = {"name": "weather", "arguments": ARGUMENTS}
TEXT = ASK["content"]
# One exchange with one tool call, as each interface writes it.
FORMS: dict[str, list[dict[str, object]]] = {
    "OpenAI": [
        ASK,
        say(
            "assistant", None, tool_calls=[part("function", id="c1", function=WEATHER)]
        ),
        say("tool", "22 degrees", tool_call_id="c1"),
        say("assistant", [part("text", text="Sunny.")]),
    ],
    "OpenAI before tools": [
        ASK,
        say("assistant", "", function_call=WEATHER),
        say("function", "22 degrees", name="weather"),
        say("assistant", "Sunny."),
    ],
    "OpenAI Responses": [
        part("message", **say("user", [part("input_text", text=TEXT)])),
        part("reasoning", summary=[]),
        part("function_call", call_id="c1", **WEATHER),
        part("function_call_output", call_id="c1", output="22 degrees"),
        part("message", **say("assistant", [part("output_text", text="Sunny.")])),
    ],
    "Anthropic": [
        ASK,
        say(
            "assistant",
            [
                part("thinking", thinking="I should look", signature="x"),
                part("tool_use", id="t1", name="weather", input=CITY),
            ],
        ),
        say(
            "user",
            [part("tool_result", tool_use_id="t1", content=[{"text": "22 degrees"}])],
        ),
        say("assistant", [part("text", text="Sunny.")]),
    ],
    "ShareGPT's roles": [
        say("human", TEXT),
        say("function_call", json.dumps({"name": "weather", "arguments": CITY})),
        say("observation", "22 degrees"),
        say("gpt", "Sunny."),
    ],
}


@pytest.mark.parametrize("form", FORMS)
def test_one_exchange_is_the_same_dialogue_in_every_form(form: str) -> None:
    assert turns_of(*FORMS[form]) == SUNNY
    same = read_messages(FORMS["OpenAI"])
    assert read_messages(FORMS[form]) == same  # the id too: it is made of the turns


def test_what_is_not_text_is_counted() -> None:
    folded: Counter[str] = Counter()
    picture = part("image_url", image_url={"url": "data:..."})
    sound = part("input_audio", input_audio={"data": "..."}, transcript="and this")
    messages = [
        say("system", "Be kind."),
        say("developer", [{"type": "text", "text": "Be short."}]),
        say("user", [{"type": "text", "text": "What is this?"}, picture, sound]),
        say("assistant", " \n"),
        say("user", None),
        *FORMS["Anthropic"][1:],
        say("assistant", "Anything else?"),
        say("tool", "too late"),
    ]
    dialogue = read_messages(messages, context={"persona": "a tourist"}, changes=folded)
    assert [turn.content for turn in dialogue.turns] == [
        "What is this?\n[image]\n[audio]\nand this",
        "Sunny.\nAnything else?",
    ]
    assert dialogue.context["system_prompt"] == "Be kind.\nBe short."
    assert dialogue.context["persona"] == "a tourist"
    assert folded == {
        "parts shown as [image]": 1,
        "parts shown as [audio]": 1,
        "tool calls": 1,
        "tool results": 2,
        "thoughts left out": 1,
    }


def test_a_chat_of_several_assistants_is_refused() -> None:
    chat = [*HELLO, say("assistant", "I hand over.", name="router"), say("user", "Bye")]
    assert read_messages(chat).chatbot == "router"
    with pytest.raises(RecordError, match=r"messages\[4\]\.name"):
        read_messages([*chat, say("assistant", "Hello", model="seller")])
    assert read_messages(chat, models={"assistant": "b"}).chatbot == "b"
    assert read_messages(chat, models={"assistant": None}).chatbot == "router"


BAD: dict[str, tuple[Any, str]] = {
    "no list": ("Hi", "messages"),
    "unknown role": ([*HELLO, say("narrator", "x")], "messages[2].role"),
    "unknown part": (
        [say("user", ["a", part("hologram")])],
        "messages[0].content[1].type",
    ),
    "half a surrogate pair": ([say("user", "\ud800")], "messages[0].content"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_is_named(name: str) -> None:
    messages, field = BAD[name]
    with pytest.raises(RecordError) as caught:
        read_messages(messages)
    assert caught.value.field == field
    for more in ({"lang": "Klingonese"}, {"id": " "}):
        with pytest.raises(RecordError, match=next(iter(more))):
            read_messages(HELLO, **more)  # type: ignore[arg-type]


def test_messages_and_back() -> None:
    turns = (
        Turn("assistant", "Welcome"),
        Turn("user", "[image]\nHi"),
        Turn("assistant", "你好 🙂"),
    )
    context = {"system_prompt": "Be kind.\nBe short."}
    dialogue = Dialogue("d1", turns, lang="zh", context=context)
    said = [
        {"role": "system", "content": context["system_prompt"]},
        *dialogue.to_record()["dialogue"],
    ]
    again = read_messages(said, id="d1", lang="zh")
    assert again == dialogue
    assert read_messages(HELLO).id == read_messages(tuple(HELLO)).id
    assert read_messages(HELLO).id != read_messages(HELLO[::-1]).id
