"""README's picture: the page of `medal report` on the tutorial's support log, as a small PNG.

    python tests/picture.py [docs/assets/page.png]

(``make picture``; needs Debian's chromium.) The same commands as in docs/tutorials/support_log.md.
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from walks import WALKS

WINDOW = (1280, 1290)  # what a reader sees first
LARGEST = 150_000  # bytes
COMMANDS = """
medal score support_log.jsonl --out scores.parquet --keep version --keep time --keep lang
medal report scores.parquet --chats support_log.jsonl --by version --over time:day --out report
"""


def picture(page: Path, shot: Path) -> bytes:
    """Returns the top of ``page`` as PNG with a palette of 128 colours."""
    size = f"--window-size={WINDOW[0]},{WINDOW[1]}"
    flags = ["--headless=new", "--no-sandbox", "--hide-scrollbars", size]
    command = ["chromium", *flags, f"--screenshot={shot}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)
    out = io.BytesIO()
    Image.open(shot).convert("RGB").quantize(128).save(out, "png", optimize=True)
    return out.getvalue()


def main(out: str = "docs/assets/page.png") -> None:
    """Score, report, and take the picture. Raises SystemExit where it is too large."""
    with tempfile.TemporaryDirectory() as folder:
        name = "support_log.jsonl"
        (Path(folder) / name).write_bytes((WALKS / name).read_bytes())
        for command in COMMANDS.strip().splitlines():
            subprocess.run(command.split(), cwd=folder, check=True)
        report = Path(folder) / "report" / "report.html"
        data = picture(report, Path(folder) / "page.png")
    if len(data) > LARGEST:
        raise SystemExit(f"{out}: {len(data)} bytes, more than {LARGEST}")
    Path(out).write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
