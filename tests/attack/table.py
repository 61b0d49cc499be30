"""Runs the attacks and writes what they tried and what failed into SECURITY.md (``make attacks``).

Arguments go to pytest: without any, the suite's sample runs; ``-m ""`` runs all cases.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- attacks -->\n", "<!-- end of attacks -->\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "tests/attack",
            f"--junitxml={report}",
        ]
        subprocess.run([*command, *sys.argv[1:]], cwd=ROOT)
        cases = [*ElementTree.parse(report).iter("testcase")]
    tried, failed = Counter[str](), Counter[str]()
    for case in cases:
        name = case.attrib["classname"].rpartition(".")[2]
        tried[name] += case.find("skipped") is None
        failed[name] += (
            case.find("failure") is not None or case.find("error") is not None
        )
    lines = ["| attacks | tried | failed |", "| --- | --- | --- |"]
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        about = (
            ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem
        )
        what = " ".join(about.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
        lines.append(
            f"| {what} (`{path.name}`) | {tried[path.stem]:,} | {failed[path.stem]:,} |"
        )
    page = ROOT / "SECURITY.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    table = "\n".join(lines) + "\n"
    page.write_text(before + BEGIN + table + END + rest.split(END)[1], encoding="utf-8")
    sys.exit(bool(failed.total()))


if __name__ == "__main__":
    main()
