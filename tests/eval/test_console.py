"""Tables in a pipe are not broken at 80 columns."""

import re
import time

import pytest

from medal_judges.report.console import PIPED, ProgressBar, cell_text, wide_console
from medal_judges.stats.estimate import Estimate


def test_a_pipe_is_wider_than_rich_takes_it_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = wide_console()
    console.print("x" * (PIPED - 1), "end")
    assert not console.is_terminal and console.width == PIPED
    assert capsys.readouterr().out.splitlines()[0].rstrip() == "x" * (PIPED - 1)


def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("head", title="a [/b] :smile:")
    table.add_row("[red]name[/x]")
    wide_console().print(table)
    shown = capsys.readouterr().out
    assert "a [/b] :smile:" in shown and "[red]name[/x]" in shown


def test_a_log_gets_no_bar_and_no_line_before_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressBar("judging", 60) as bar:
        for _ in range(60):
            bar.advance()
    assert capsys.readouterr().err == ""
    with ProgressBar("judging", 60, every=0) as bar:
        bar.advance(7, note="half a dollar")
    assert capsys.readouterr().err == "7 of 60 dialogues; half a dollar; 0:00:00 left\n"
    with ProgressBar("training", 60, unit="steps", every=0) as bar:
        time.sleep(0.2)
        bar.advance(3)
    assert re.fullmatch(r"3 of 60 steps; 0:00:0[4-9] left\n", capsys.readouterr().err)


def test_a_number_is_never_minus_zero() -> None:
    assert cell_text(Estimate(-0.001, -0.004, 0.3)) == "0.00 [0.00, 0.30]"
    assert cell_text(-0.004) == "0.00" and cell_text(-0.006) == "-0.01"
