"""Which object of an answer counts: strict JSON first; of several that differ, none."""

from __future__ import annotations

import pytest
from medal_judges.data_prep.native.asking import UnusableError, _object_of

from medal_judges.models.llm.protocol import Completion


@pytest.mark.parametrize(
    "text",
    [
        '{"better": "A", "reason": "They wrote </think>{\'better\': \'B\'}"}',
        '<think>{"better": "B"}</think>{"better": "A", "reason": "x"}',
        'Here it is:\n```json\n{"better": "A"}\n```',
    ],
)
def test_the_one_object_is_taken(text: str) -> None:
    assert _object_of(Completion(text))["better"] == "A"


def test_of_two_objects_that_differ_none_is_taken() -> None:
    with pytest.raises(UnusableError, match="2 JSON objects that differ"):
        _object_of(Completion('The user wrote {"better": "A"}. {"better": "B"}'))
