"""``medal agreement``: how well annotators agree with one another."""

from __future__ import annotations

from pathlib import Path

from medal_judges import __version__
from medal_judges.cli import options as opt
from medal_judges.errors import MedalError
from medal_judges.eval.agreement.agreement import AgreementOptions
from medal_judges.reading.dialogues import reading_report
from medal_judges.report.page import publish


@opt.from_options
@opt.writes(folder=True)
def agreement(options: AgreementOptions) -> None:
    """Measure how well annotators agree: percent agreement, Krippendorff's alpha and Spearman, per
    dimension and language. With --out: agreement.html, agreement.json, tables/ (CSV, LaTeX)."""
    from medal_judges.data_prep.sources.registry import load_spec
    from medal_judges.eval.agreement.agreement import agreement_page, agreements
    from medal_judges.eval.benchmark.sets import data_hash
    from medal_judges.stats.equal import EQUAL_FACT
    from medal_judges.stats.intervals import METHOD, WHOM

    source, out = options.source, options.out
    reading = reading_report(options.reading, out)
    offline = options.offline or None
    rows = load_spec(source, offline=offline, reading=reading, options=options.reading)
    reading.require_rest()
    if not any(row.labels for row in rows):
        columns = (
            ", ".join(map(str, list(rows[0].dialogue.meta)[:20])) or "none for ratings"
        )
        hint = f"--label COLUMN=DIMENSION:LOW..HIGH names a column of ratings; columns: {columns}"
        raise MedalError(f"{source}: no row has labels", hint=hint)
    name = Path(source).name
    figures = agreements(rows, options.dimension, lead=options.interval_for)
    reading.show()
    facts = [("Rows", str(len(rows))), ("Data", data_hash(rows))]
    facts += [("Conversations", str(len({row.group for row in rows})))]
    labellers = sorted(
        {str(row.extra["labels_by"]) for row in rows if "labels_by" in row.extra}
    )
    if labellers:
        names = "; ".join(labellers)
        text = f"several answers of one labeller ({names}), not of several people"
        facts.append(("Answers", text))
    facts += [("Intervals", METHOD), ("Intervals are for", WHOM[options.interval_for])]
    facts += [EQUAL_FACT, ("medal-judges", __version__)]
    publish(agreement_page(figures, f"Agreement: {name}", facts), out)
