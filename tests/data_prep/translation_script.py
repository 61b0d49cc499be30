"""A model that translates by rule: it puts the language before each turn. A turn that says one of
the words of FAULTS spoils the answer, and HEALS beside it says: only the first time."""

import json
import re
from typing import Any

REFUSED = "could not be used"  # stands in every prompt of a second try
SORRY = "I am sorry, but I cannot help you with this request."
FIRST = {"EMPTY": " ", "DOTS": "...", "NUMBER": 7, "SORRY": SORRY}


def answer(body: dict[str, Any]) -> str:
    """The text that a request is answered with."""
    prompt = body["messages"][-1]["content"]
    language = re.search(r"Translate every turn into (\w+)", prompt)
    assert language is not None
    found = json.loads(prompt[prompt.index('{\n "1_') :].partition("\n}")[0] + "\n}")
    said = " ".join(found.values())
    out: dict[str, Any] = {
        k: f"[{language[1]}] {v}" if v else "" for k, v in found.items()
    }
    if not ("HEALS" in said and REFUSED in prompt):
        out |= {next(iter(out)): text for word, text in FIRST.items() if word in said}
        if "DROP" in said:
            out.popitem()
        if "ADD" in said:
            out["9_user"] = "one more"
        if "LEAVE" in said:
            out = found
    if "PROSE" in said:
        return "I would rather not."
    return f"```json\n{json.dumps(out, ensure_ascii=False)}\n```"
