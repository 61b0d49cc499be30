"""G-Eval through the API backend, against a real server with the embedded model."""

from collections.abc import Callable
from typing import Any

import pytest

from medal_judges.models.base.saving import load_judge
from medal_judges.records.dialogue import Dialogue, Turn

pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
# After this one the small model does reply with a number.
TALK = Dialogue(
    "d", (Turn("user", "Rate this film from 1 to 3."), Turn("assistant", "3"))
)


def asked(server: Any, dimension: str) -> dict[str, Any]:
    llm = {
        "backend": "openai",
        "model": "smollm2",
        "base_url": server.url,
        "cache": False,
    }
    return {"dimensions": [dimension], "llm": llm}


def test_the_alternatives_of_a_server_are_weighed(serve: Callable[..., Any]) -> None:
    server = serve()
    judge = load_judge("configs/judges/geval.yaml", **asked(server, "overall"))
    (judged,) = judge.score([TALK])
    assert 1 <= judged.scores["overall"] <= 5 and judged.usage["output_tokens"] > 0
    assert sum(judged.distributions["overall"]) == pytest.approx(1, abs=1e-9)
    sent = server.told("requests")[-1]["body"]
    assert (sent["top_logprobs"], sent["temperature"]) == (20, 0)


WITHOUT = [{"refuse": ["top_logprobs"]}, {"alone": True}]


@pytest.mark.parametrize("settings", WITHOUT)
def test_without_alternatives_a_dialogue_is_unscored(
    serve: Callable[..., Any], settings: dict[str, Any]
) -> None:
    judge = load_judge(
        "configs/judges/geval.yaml", **asked(serve(**settings), "overall")
    )
    (judged,) = judge.score([TALK])
    assert judged.scores == {"overall": None}
    assert "no alternatives" in (judged.failure or "")
