"""Kilobytes that unpack to gigabytes, given to the commands that read such files: a message, within
a bound of memory."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medal_judges.data_prep.annotation.spreadsheet import read_spreadsheet
from medal_judges.errors import DataError
from medal_judges.reading import containers
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.storage.jsonl import read_records

TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml."
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def row(*texts: str) -> str:
    cells = "".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in texts)
    return f"<row>{cells}</row>"


HEAD = row("prompt", "response", "key", "annotator", "overall")
ROW = row("hi", "x", "d1", "ana", "3")
Parts = dict[str, str]


def workbook(
    path: Path, changed: Parts, kind: str = "worksheet", strings: str = ""
) -> Path:
    """A workbook of one sheet; ``changed`` parts are other than they should be."""
    strings = strings or "xl/sharedStrings.xml"
    parts: Parts = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            f'<Override PartName="/xl/workbook.xml" ContentType="{TYPES}sheet.main+xml"/>'
            f'<Override PartName="/{strings}" ContentType="{TYPES}sharedStrings+xml"/>'
            f'<Override PartName="/xl/worksheets/s.xml" ContentType="{TYPES}worksheet+xml"/>'
            "</Types>"
        ),
        "xl/workbook.xml": (
            f'<workbook {MAIN} xmlns:r="{RELATIONS}"><sheets>'
            '<sheet name="s" sheetId="1" r:id="rId1"/></sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": (
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
            f'<Relationship Id="rId1" Type="{RELATIONS}/{kind}" Target="worksheets/s.xml"/>'
            "</Relationships>"
        ),
        strings: f"<sst {MAIN}></sst>",
        "xl/styles.xml": f"<styleSheet {MAIN}></styleSheet>",
        "xl/worksheets/s.xml": (
            f"<worksheet {MAIN}><sheetData>{HEAD}{ROW}</sheetData></worksheet>"
        ),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for name, part in (parts | changed).items():
            packed.writestr(name, part)
    return path


def sheet(rows: str, before: str = HEAD) -> Parts:
    content = f"<worksheet {MAIN}><sheetData>{before}{rows}</sheetData></worksheet>"
    return {"xl/worksheets/s.xml": content}


LAUGHS = '<!ENTITY l0 "ha">' + "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10)
)


def entity(declared: str, text: str) -> Parts:
    (content,) = sheet(row(text)).values()
    return {"xl/worksheets/s.xml": f"<!DOCTYPE w [{declared}]>{content}"}


# Kind -> the file, made ``size`` megabytes large unpacked.
WORKBOOKS: dict[str, Callable[[Path, int], Path]] = {
    "texts": lambda p, mb: workbook(
        p,
        {
            "xl/sharedStrings.xml": f"<sst {MAIN}>{'<si><t>x</t></si>' * (mb << 16)}</sst>"
        },
    ),
    "rows": lambda p, mb: workbook(p, sheet("<row/>" * (mb * 175_000))),
    "one cell": lambda p, mb: workbook(p, sheet(row("x" * (mb << 20)))),
    "a billion laughs": lambda p, mb: workbook(p, entity(LAUGHS, "&l9;")),
    "a file of the machine": lambda p, mb: workbook(
        p, entity('<!ENTITY l SYSTEM "file:///etc/passwd">', "&l;")
    ),
}
READ = {
    "dialogues": lambda path: list(read_dialogues(path)),
    "answers": lambda path: list(read_spreadsheet(path, ["overall"])),
}


def test_a_workbook_in_order_is_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", sheet(ROW * 1000))
    assert [len(read(path)) for read in READ.values()] == [1000, 1000]


@pytest.mark.parametrize("kind", WORKBOOKS)
def test_a_workbook_that_comes_to_too_much_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "_MOST_ROWS", 4096)
    path = WORKBOOKS[kind](tmp_path / "a.xlsx", 9)
    assert path.stat().st_size < 300_000
    for read in READ.values():
        with pytest.raises(DataError) as error:
            read(path)
        assert "a.xlsx" in str(error.value) and "root:" not in str(error.value)


GOOD = '{"prompt": "hi", "response": "x"}\n'


@pytest.mark.parametrize("again", ["\n", "0\n", " "])
def test_gzip_that_comes_to_too_much_is_refused(tmp_path: Path, again: str) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress((GOOD + again * 5_000_000).encode()))
    reading = ReadingReport()
    for rows in (read_dialogues(path, reading=reading), read_records(path, str)):
        with pytest.raises(DataError, match="Gunzip it first"):
            list(rows)


def test_a_parquet_file_that_comes_to_too_much_is_refused(tmp_path: Path) -> None:
    once = pa.DictionaryArray.from_arrays(
        pa.array([0] * 64, pa.int32()), ["x" * (8 << 20)]
    )
    for name, table in (
        ("one value in all rows", pa.table({"prompt": once, "response": ["a"] * 64})),
        ("rows of nothing", pa.table({"prompt": pa.nulls(5_000_000)})),
    ):
        pq.write_table(table, tmp_path / name, compression="zstd")
        assert (tmp_path / name).stat().st_size < 20_000
        with pytest.raises(DataError, match=f"{name}: unpacks to more than"):
            list(read_dialogues(tmp_path / name, reading=ReadingReport()))
