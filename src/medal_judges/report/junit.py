"""JUnit XML: the form in which CI systems read the results of gates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

from medal_judges.errors import printable
from medal_judges.storage.files import atomic_write


def write_junit(path: Path, suite: str, gates: Sequence[tuple[str, str, str]]) -> Path:
    """Writes the results of gates (pass or fail checks of scores) as JUnit XML
    and returns ``path``.

    Args:
        path: File to write.
        suite: Name of the test suite.
        gates: (name, verdict, message) of each gate. The verdict ``failed`` becomes a failure,
            ``undecided`` a skipped test, and any other verdict a passed test.
    """
    elements = {"failed": "failure", "undecided": "skipped"}
    counts = Counter(verdict for _, verdict, _ in gates)
    root = Element("testsuite", name=suite, tests=str(len(gates)))
    root.set("failures", str(counts["failed"]))
    root.set("skipped", str(counts["undecided"]))
    for name, verdict, text in gates:
        case = SubElement(root, "testcase", name=printable(name), classname=suite)
        if verdict in elements:
            SubElement(case, elements[verdict], message=printable(text))
    text = tostring(root, encoding="unicode", xml_declaration=True)
    return atomic_write(path, text + "\n")
