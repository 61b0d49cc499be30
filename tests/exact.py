"""Numbers that tie if they are the same up to rounding, as outside libraries compare them."""

import numpy as np

from medal_judges.stats.correlation import Floats
from medal_judges.stats.equal import Values


def exact(numbers: Floats) -> Values:
    largest = float(np.nanmax(np.abs(numbers), initial=1.0))
    return Values(np.asarray(numbers, dtype=np.float64), 1e-12 * largest)
