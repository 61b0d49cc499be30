"""JUnit XML: the form in which CI systems read the results of gates."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from medal_judges.errors import visible
from medal_judges.storage.files import atomic_write


def write_junit(path: Path, suite: str, gates: Iterable[tuple[str, str, str]]) -> Path:
    """Writes (name, verdict, text) of each gate: ``failed`` is a failure, ``undecided`` is skipped,
    any other verdict passes. Returns the path."""
    root = ElementTree.Element("testsuite", name=suite)
    kinds = {"failed": "failure", "undecided": "skipped"}
    counts = dict.fromkeys(("tests", "failures", "skipped"), 0)
    for name, verdict, text in gates:
        case = ElementTree.SubElement(root, "testcase", name=visible(name), classname=suite)
        counts["tests"] += 1
        if verdict in kinds:
            ElementTree.SubElement(case, kinds[verdict], message=visible(text))
            counts["failures" if verdict == "failed" else "skipped"] += 1
    for key, count in counts.items():
        root.set(key, str(count))
    text = ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
    return atomic_write(path, text + "\n")
