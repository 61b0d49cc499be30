"""What a run's electricity emitted, measured by codecarbon where it is installed."""

from __future__ import annotations

import json
import logging
import os
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

EMISSIONS_NAME = "emissions.json"
COUNTRY = "MEDAL_JUDGES_COUNTRY"  # ISO 3166 alpha-3, such as DEU

logger = logging.getLogger(__name__)


class Meter:
    """Measures from entering to ``write``; without codecarbon it measures nothing. One a run: left
    by an error it stops too."""

    def __init__(self) -> None:
        self._country = os.environ.get(COUNTRY) or None
        self._tracker = _tracker(self._country)

    def __enter__(self) -> Meter:
        if self._tracker is not None:
            self._tracker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._tracker is not None:
            self._tracker.stop()
            self._tracker = None

    def write(self, folder: Path) -> None:
        """emissions.json in ``folder``: kWh, seconds, on what, by what, and kg CO2 equivalent where
        the country is named (``kg_co2`` is None elsewhere)."""
        if self._tracker is None:
            return
        tracker, self._tracker = self._tracker, None
        kilograms = tracker.stop()
        data = tracker.final_emissions_data
        if kilograms is None or data is None:
            logger.warning("codecarbon measured nothing: the card states no emissions")
            return
        record = {
            "kg_co2": float(kilograms) if self._country else None,
            "kwh": float(data.energy_consumed),
            "seconds": float(data.duration),
            "country": self._country,
            "hardware": data.gpu_model or data.cpu_model,
            "tool": f"codecarbon {data.codecarbon_version}",
        }
        text = json.dumps(record, indent=2)
        (folder / EMISSIONS_NAME).write_text(text + "\n", encoding="utf-8")


def _tracker(country: str | None) -> Any:
    """codecarbon's tracker, the one that asks no network where it is: the other takes Canada where
    nobody answers, whose grid is among the cleanest. Without a country only its kWh are used."""
    if find_spec("codecarbon") is None:
        return None
    from codecarbon import OfflineEmissionsTracker

    return OfflineEmissionsTracker(
        country_iso_code=country or "FRA",
        save_to_file=False,
        log_level="error",
        allow_multiple_runs=True,
    )
