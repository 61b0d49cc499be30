"""The scale of an untrained judge."""

import numpy as np
import pytest

from medal_judges.errors import ConfigError
from medal_judges.records.dimension import Dimension
from medal_judges.training.loop.calibration import fit_scale

OVERALL = Dimension("overall", "continuous", 1, 5)


def test_a_known_scale_is_found_again() -> None:
    raw = np.random.default_rng(0).normal(-0.4, 0.3, 400)
    units = 1 / (1 + np.exp(-(raw + 0.5) / 0.25))
    found = fit_scale(raw.tolist(), units.tolist(), OVERALL)
    assert found["center"] == pytest.approx(-0.5, abs=1e-3)
    assert found["spread"] == pytest.approx(0.25, abs=1e-3)
    assert found["error"] < 1e-3 < found["error_of_mean"]


def test_a_judge_against_the_grain_is_flattened_not_turned_round() -> None:
    raw = np.linspace(-1, 1, 50)
    found = fit_scale(raw.tolist(), (0.5 - 0.3 * raw).tolist(), OVERALL)
    assert found["spread"] > 50
    assert found["error"] == pytest.approx(found["error_of_mean"], abs=0.05)


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 rows are too few"):
        fit_scale([0.0] * 5, [0.5] * 5, OVERALL)
