"""The Space's folder, run as it is, in a headless Chromium."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from medal_judges.errors import MedalError
from medal_judges.integrations.chats import load_judge
from medal_judges.integrations.gradio import scored_rows
from medal_judges.integrations.space import folder

from ..browser import DESKTOP, PHONE, Browser

PORT = 17860


def test_what_is_pasted_is_a_chat() -> None:
    judge = load_judge("length")
    plain = "User: こんにちは\nAssistant: はい。\nword word word word\nuser: And?\nAI: Yes: so."
    turns = [{"role": "user", "content": "こんにちは"}]
    turns += [{"role": "assistant", "content": "はい。\nword word word word"}]
    turns += [{"role": "user", "content": "And?"}, {"role": "assistant", "content": "Yes: so."}]
    rows, note = scored_rows(judge, plain)
    assert (rows, note) == scored_rows(judge, json.dumps(turns))
    assert rows[-1][0] == "overall" and float(str(rows[-1][1])) > 1 and rows[-1][2] == "1 to 5"
    assert note.startswith("judge:length")
    rows, note = scored_rows(judge, "User: Anyone there?")
    assert {row[1] for row in rows} == {"not scored"} and note == "no assistant turn to judge"
    for bad in ("", "[1,", "Hello there", '[{"content": "Hi"}]'):
        with pytest.raises(MedalError, match="chat"):
            scored_rows(judge, bad)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[str]:
    env = os.environ | {"MEDAL_JUDGE": "length", "GRADIO_SERVER_PORT": str(PORT)}
    env |= {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_SERVER_NAME": "127.0.0.1"}
    with open(tmp_path / "log", "w") as log:
        words = [sys.executable, str(Path(folder()) / "app.py")]
        process = subprocess.Popen(words, env=env, stdout=log, stderr=log)
    end = time.monotonic() + 200
    while True:
        try:
            urlopen(f"http://127.0.0.1:{PORT}", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.5)
    yield f"http://127.0.0.1:{PORT}"
    process.kill()
    process.wait()


PASTE = """
(() => {
  const box = document.querySelector('textarea:not([disabled])');
  Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, %s);
  box.dispatchEvent(new Event('input', {bubbles: true}));
  [...document.querySelectorAll('button')].find(b => b.textContent.trim() === 'Score').click();
  return true;
})()
"""


@pytest.mark.integrations("gradio")
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_a_pasted_chat_is_scored_in_a_browser(app: str, tmp_path: Path, width: int) -> None:
    browser = Browser(tmp_path / "profile")
    try:
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        browser.call("Page.navigate", url=app)
        ready = "[...document.querySelectorAll('button')].some(b => b.textContent.trim()==='Score')"
        browser.wait_for(ready, 120)
        chat = "User: Hi!\nAssistant: <img src=x onerror=\"document.title='run'\"> word word word"
        browser.ask(PASTE % json.dumps(chat))
        browser.wait_for("document.body.innerText.includes('overall')", 60)
        note = "[...document.querySelectorAll('textarea')].at(-1).value"
        assert str(browser.wait_for(note, 60)).startswith("judge:length")
        expected = scored_rows(load_judge("length"), chat)[0][-1][1]
        assert browser.ask(f"document.body.innerText.includes('{expected}')")
        browser.ask(PASTE % json.dumps("Hello there"))
        browser.wait_for(f"{note}.includes('begins with User:')", 60)
        assert browser.ask("document.title") == "medal_judges"
    finally:
        browser.close()
