"""Each option of the application has a row in the table, and each row an option."""

from importlib import import_module
from pathlib import Path

from .table import ROWS, options_of_the_application

MODULES = [path.stem for path in sorted(Path(__file__).parent.glob("test_*.py"))]


def test_every_option_has_a_row_and_every_row_an_option() -> None:
    for name in MODULES:
        import_module(f".{name}", __package__)
    options = options_of_the_application()
    assert len(options) > 270
    without_a_row = sorted(options - ROWS)
    without_an_option = sorted(ROWS - options)
    assert not without_a_row
    assert not without_an_option
