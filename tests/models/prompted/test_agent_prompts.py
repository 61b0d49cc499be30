"""Prompt files of agents."""

import pytest

from medal_judges.models.prompted.prompt import Prompt, load_prompt


def test_placeholders_are_filled_once_and_lines_without_a_value_go() -> None:
    user = "Scene: {scene}\nFeels: {affect}\n\nEnd {other}"
    prompt = Prompt(name="w", parts={"user": user, "again": "Not: {no}"})
    values = {"scene": "says {affect}", "affect": None, "no": "this"}
    assert [m.content for m in prompt.messages(values)] == ["Scene: says {affect}\n\nEnd {other}"]
    again = prompt.messages(values, again=[{}, {"no": "{scene}"}])[-1].content
    assert again == "Scene: says {affect}\n\nEnd {other}\n\nNot: this\n\nNot: {scene}"


@pytest.mark.parametrize(
    "name", ["user_first", "user_later", "user_check", "user_check_table10", "chatbot"]
)
def test_the_shipped_agents_prompts_load(name: str) -> None:
    places = ("scene", "persona", "gender", "affect", "language", "country", "dialogue")
    prompt = load_prompt(name, (*places, "message", "rejected", "feedback"))
    assert prompt.parts["system"] and prompt.source.startswith("MEDAL")
