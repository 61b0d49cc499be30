"""Which answers are JSON objects."""

from __future__ import annotations

import pytest

from medal_judges.data_prep.native.asking import UnusableError, _object_of
from medal_judges.models.llm.protocol import Completion


@pytest.mark.parametrize(
    "text",
    [
        '{"better": "A", "reason": "They wrote </think>{\'better\': \'B\'}"}',
        '<think>{"better": "B"}</think>{"better": "A", "reason": "x"}',
        '```json\n{"better": "A"}\n```',
    ],
)
def test_an_object_is_read(text: str) -> None:
    assert _object_of(Completion(text))["better"] == "A"


@pytest.mark.parametrize(
    "text",
    [
        "",
        '<think>{"better": "A"}',
        'Here it is: {"better": "A"}',
        '{"better": "A"} {"better": "B"}',
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UnusableError, match="not one JSON object"):
        _object_of(Completion(text))
