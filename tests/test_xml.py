"""XML that this package writes can be parsed, whatever characters a name has."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from medal_judges.data_prep.annotation.label_studio import config_xml
from medal_judges.data_prep.annotation.questions import AnnotationQuestion
from medal_judges.records.dimension import Dimension
from medal_judges.report.junit import write_junit

SPELLED = {
    "\x00": "\\u0000",
    "\x0b": "\\u000b",
    "\x1b": "\\u001b",
    "\ud800": "\\ud800",
    "\ufffe": "\\ufffe",
    "\uffff": "\\uffff",
}
KEPT = {
    character: character for character in ("\t", "日", "\U0001f600", "<&>\"'", "\ufdd0")
}


@pytest.mark.parametrize(("character", "written"), (SPELLED | KEPT).items(), ids=ascii)
def test_a_gate_with_any_name_is_a_junit_case(
    tmp_path: Path, character: str, written: str
) -> None:
    name = f"v{character}2"
    path = write_junit(
        tmp_path / "gates.xml", "medal compare", [(name, "failed", name)]
    )
    case = ElementTree.parse(path).getroot()[0]
    assert case.attrib["name"] == case[0].attrib["message"] == f"v{written}2"


def test_a_definition_with_any_character_is_a_label_studio_interface() -> None:
    dimension = Dimension(
        "overall", "ordinal", 1, 5, definition="How good\x0b it is\uffff"
    )
    question = AnnotationQuestion(dimension, "Overall", "How good?", "", "", ())
    asks = dict.fromkeys(("binary", "ordinal", "comment", "other_text"), "")
    text = config_xml([question], asks)
    ElementTree.fromstring(text)
    assert "How good\\u000b it is\\uffff" in text
