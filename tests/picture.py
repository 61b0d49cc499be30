"""README's picture: the page of `medal report` on the tutorial's support log, as a small PNG.

    python tests/picture.py [docs/assets/page.png]

(``make picture``; needs Debian's chromium.) The same commands as in docs/tutorials/support_log.md.
"""

import base64
import io
import subprocess
import sys
import tempfile
from pathlib import Path

from browser import DESKTOP, Browser
from PIL import Image
from walks import WALKS

HEIGHT = 1290  # of the window: what a reader sees first
LARGEST = 150_000  # bytes
COMMANDS = """
medal score support_log.jsonl --out scores.parquet --keep version --keep time --keep lang
medal report scores.parquet --chats support_log.jsonl --by version --over time:day --out report
"""


def picture(page: Path, profile: Path) -> bytes:
    """The top of ``page`` as PNG with a palette of 128 colours."""
    browser = Browser(profile)
    try:
        browser.open(page, DESKTOP, "light")
        clip = {"x": 0, "y": 0, "width": DESKTOP, "height": HEIGHT, "scale": 1}
        taken = browser.call(
            "Page.captureScreenshot", clip=clip, captureBeyondViewport=True
        )
    finally:
        browser.close()
    image = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    out = io.BytesIO()
    image.quantize(128).save(out, "png", optimize=True)
    return out.getvalue()


def main(out: str = "docs/assets/page.png") -> None:
    """Score, report, and take the picture. Raises SystemExit where it is too large."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("support_log.jsonl",):
            (Path(folder) / name).write_bytes((WALKS / name).read_bytes())
        for command in COMMANDS.strip().splitlines():
            subprocess.run(command.split(), cwd=folder, check=True)
        data = picture(
            Path(folder) / "report" / "report.html", Path(folder) / "profile"
        )
    if len(data) > LARGEST:
        raise SystemExit(f"{out}: {len(data)} bytes, more than {LARGEST}")
    Path(out).write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
