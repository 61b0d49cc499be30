"""``medal benchmark``: judges over sets, figures, and the page."""

from __future__ import annotations

from medal_judges.cli.options import with_options
from medal_judges.errors import CoverageError
from medal_judges.eval.benchmark.config import BenchmarkOptions
from medal_judges.report.console import ProgressBar


@with_options()
def benchmark(options: BenchmarkOptions) -> None:
    """Measure how well judges agree with people on labelled sets, and write a page.

    The same command again uses the saved scores of the same judge and data. It scores only what is
    new, or failed because of a server error or the cost limit.

    If a judge left too many rows without a score, everything is written and the exit status is 3.

    Example: medal benchmark --config human --judge mine=runs/mine
    """
    from medal_judges.eval.benchmark.page import benchmark_page
    from medal_judges.eval.benchmark.run import run_benchmark
    from medal_judges.report.page import print_and_write

    with ProgressBar("judging") as bar:
        results, folder = run_benchmark(options, bar)
    print_and_write(benchmark_page(results), folder)
    under = [
        f"{row.judge} on {row.set_name}, {row.dimension}: {row.coverage:.1%}"
        for row in results.rows
        if row.has_low_coverage
    ]
    if under:
        raise CoverageError(
            "coverage is below the minimum, so these rows have no result:\n    "
            + "\n    ".join(under),
            hint="Read the reasons in predictions/. Type the command again with --retry-failed, "
            "or type a lower minimum: min_coverage=0.9",
        )
