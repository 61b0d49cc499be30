"""Labels by construction: issues planted into clean conversations, each with a matched control.

Every planted dialogue has a twin with an innocent edit in the same turns, so that a judge cannot
win by noticing that something was edited. The twins agree in the number of turns, in the place,
and about in length; each module has the table of its issue:

insertions.py  nonfactual, lacks_commonsense, unsafe
repetition.py  repetitive
irrelevance.py irrelevant
incoherence.py incoherent
garbling.py    uninterpretable
coldness.py    lacks_empathy
"""

from medal_judges.data_prep.perturbation.donors import Donors
from medal_judges.data_prep.perturbation.plant import (
    ISSUES,
    STRENGTHS,
    Kind,
    Pair,
    Planted,
    Refusal,
    clean,
    plant,
)
from medal_judges.data_prep.perturbation.planted_set import Tally, planted_set

__all__ = [
    "ISSUES",
    "STRENGTHS",
    "Donors",
    "Kind",
    "Pair",
    "Planted",
    "Refusal",
    "Tally",
    "clean",
    "plant",
    "planted_set",
]
