"""The image of the Dockerfile drops root, and only what is named travels into it."""

from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_image_drops_root_and_holds_what_is_named() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    names = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert names.index("USER") < names.index("ENTRYPOINT")
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert kept[0] == "*"  # no data, no key, no history
    assert all((ROOT / line[1:]).exists() for line in kept if line.startswith("!"))
