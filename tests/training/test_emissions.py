"""Emissions: measured by codecarbon where it is installed, and never made up where it is not."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from medal_judges import Judge
from medal_judges.models.base.golden import write_golden
from medal_judges.training.card.card import write_card
from medal_judges.training.card.emissions import Meter


def test_what_was_measured_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("codecarbon", reason="pip install 'medal-judges[carbon]'")
    for country in ("POL", None):
        if country:
            monkeypatch.setenv("MEDAL_JUDGES_COUNTRY", country)
        else:
            monkeypatch.delenv("MEDAL_JUDGES_COUNTRY")
        with Meter() as meter:
            sum(range(2_000_000))
            meter.write(tmp_path)
        found = json.loads((tmp_path / "emissions.json").read_text())
        assert found["kwh"] > 0 and found["seconds"] > 0 and found["country"] == country
        assert found["tool"].startswith("codecarbon ")
        if country:  # Poland's grid burns coal: between 0.4 and 1 kg a kilowatt-hour
            assert 0.4 < found["kg_co2"] / found["kwh"] < 1
        else:
            assert found["kg_co2"] is None


def test_the_card_states_grams_where_the_country_is_known(tmp_path: Path) -> None:
    judge = Judge.from_pretrained("configs/judges/length.yaml")
    folder = judge.save_pretrained(tmp_path / "judge")
    write_golden(judge, folder)
    told = {"kwh": 0.5, "seconds": 60, "hardware": "CPU", "tool": "codecarbon 3"}
    for extra in ({"kg_co2": 0.3, "country": "POL"}, {"kg_co2": None, "country": None}):
        (folder / "emissions.json").write_text(json.dumps(told | extra))
        write_card(folder)
        card = ModelCard.load(folder / "README.md")
        grams = extra["kg_co2"] is not None
        assert ("300.00 g CO2 equivalent (POL), 0.5000 kWh" in card.content) == grams
        assert ("not stated in grams" in card.content) != grams
        found = card.data.to_dict().get("co2_eq_emissions")
        assert (found or {}).get("emissions") == (300 if grams else None)


@pytest.mark.skipif(find_spec("codecarbon") is not None, reason="codecarbon is installed")
def test_without_the_package_nothing_is_stated(tmp_path: Path) -> None:
    with Meter() as meter:
        meter.write(tmp_path)
    assert not list(tmp_path.iterdir())
