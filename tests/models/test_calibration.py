"""Calibration finds what was done to the logits."""

import numpy as np
import pytest

from medal_judges.models.base.heads import Calibration
from medal_judges.training.loop.calibration import fit_isotonic, fit_temperature


def test_temperature_is_recovered_from_simulated_answers() -> None:
    generator = np.random.default_rng(0)
    honest = generator.normal(0, 2, 20_000)
    labels = (generator.random(20_000) < 1 / (1 + np.exp(-honest))).astype(float)
    assert fit_temperature(3.0 * honest, labels) == pytest.approx(3.0, rel=0.05)
    assert fit_temperature(honest, labels) == pytest.approx(1.0, rel=0.05)


def test_a_perfect_small_set_does_not_make_a_judge_certain() -> None:
    assert fit_temperature(np.array([-1.0, 1.0]), np.array([0.0, 1.0])) >= 0.2


def test_isotonic_is_monotone_and_goes_through_the_means() -> None:
    units, targets = [0.1, 0.2, 0.3, 0.8], [0.0, 0.4, 0.2, 1.0]
    fitted = Calibration(isotonic=fit_isotonic(units, targets))
    found = [fitted.map_unit(u) for u in np.linspace(0, 1, 50)]
    assert found == sorted(found)
    assert fitted.map_unit(0.25) == pytest.approx(0.3)  # the two that disagree are pooled
    assert Calibration().map_unit(0.37) == 0.37
