"""Files of other forms in the configs of training and benchmarks; languages by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from medal_judges.errors import ConfigError, DataError, RecordError
from medal_judges.eval.benchmark.config import SetConfig
from medal_judges.eval.benchmark.run import BenchmarkSet, load_set
from medal_judges.records.languages import language_code, load_languages
from medal_judges.training.config import DataEntry
from medal_judges.training.rows.rows import load_entry

from .written import CONTAINERS, save

RATED = [
    {"Frage": "Hi", "Antwort": f"Hello {n}", "Note": 1 + n % 5, "Split": "test" if n % 2 else None}
    for n in range(8)
]
COLUMNS = {"prompt": "Frage", "response": "Antwort", "labels": {"Note": "overall:1..5"}}


@pytest.mark.parametrize("container", ["csv", "xlsx", "parquet"])
def test_training_and_benchmarks_read_tables(container: str, tmp_path: Path) -> None:
    path = save(tmp_path, f"rated.{container}", CONTAINERS[container](RATED))
    rows = load_entry(DataEntry(source=str(path), columns=COLUMNS), seed=0)
    assert [row.labels["overall"][0] for row in rows] == [1 + n % 5 for n in range(8)]
    config = SetConfig(name="x", source=str(path), columns=COLUMNS, dimensions={"overall": "o"})
    loaded = load_set(config)
    assert isinstance(loaded, BenchmarkSet) and len(loaded.rows) == 8
    split = COLUMNS | {"split": "Split"}
    half = load_entry(DataEntry(source=f"{path}:test", columns=split), seed=0)
    assert len(half) == (4 if path.suffix else 8)


def test_a_bad_row_stops_a_training_and_a_wrong_map_its_config(tmp_path: Path) -> None:
    path = save(tmp_path, "rated.csv", CONTAINERS["csv"](RATED) + b"one cell\n")
    with pytest.raises(DataError, match="4 cells"):
        load_entry(DataEntry(source=str(path), columns=COLUMNS), seed=0)
    with pytest.raises(ConfigError, match="did you mean 'prompt'"):
        DataEntry(source=str(path), columns={"promt": "Frage"})


def test_languages_of_data_sets_by_name() -> None:
    names = {"English": "en", "Scots Gaelic": "gd", "Bokmal": "nb", "unknown": "und", "Twi": "twi"}
    assert {name: language_code(name) for name in names} == names
    assert all(language_code(each.name) == code for code, each in load_languages().items())
    with pytest.raises(RecordError):
        language_code("Klingon tongue")
