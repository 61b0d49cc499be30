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
    elements = {"failed": "failure", "undecided": "skipped"}
    suite_element = ElementTree.Element("testsuite", name=suite)
    for name, verdict, text in gates:
        case = ElementTree.SubElement(
            suite_element, "testcase", name=visible(name), classname=suite
        )
        if verdict in elements:
            ElementTree.SubElement(case, elements[verdict], message=visible(text))
    suite_element.set("tests", str(len(suite_element)))
    suite_element.set("failures", str(len(suite_element.findall("*/failure"))))
    suite_element.set("skipped", str(len(suite_element.findall("*/skipped"))))
    text = ElementTree.tostring(suite_element, encoding="unicode", xml_declaration=True)
    return atomic_write(path, text + "\n")
