"""``medal calibrate``: maps the raw values of a follow-up judge to a human scale."""

from __future__ import annotations

from pathlib import Path

import typer
import yaml

from medal_judges.cli.options import from_options, writes
from medal_judges.config import Config, judge_file, option, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.reading.dialogues import DEFAULT_READING, ReadOptions, reading_report
from medal_judges.records.labelled import mean, rescale
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import atomic_write, require_other_file


class CalibrateOptions(Config):
    judge: str = option(argument=True, help="YAML file or name of a follow-up judge.")
    data: str = option(help="Labelled dialogues: spec or file.")
    out: Path = option(help="File to write: the judge with its scale, as YAML.")
    dimension: tuple[str, ...] = option(
        (),
        metavar="LABEL[=DIMENSION]",
        help="Only this dimension; may be repeated. LABEL=DIMENSION if the label has another name.",
    )
    limit: int | None = option(None, ge=20, help="First rows only.")
    reading: ReadOptions = DEFAULT_READING


@writes("judge", "data")
@from_options
def calibrate(options: CalibrateOptions) -> None:
    """Fit centre and spread of each dimension to human ratings. The ranks of dialogues do not
    change."""
    from medal_judges.data_prep.sources.registry import files_of, load_spec
    from medal_judges.models.followup.judge import FollowUpJudge
    from medal_judges.training.loop.calibration import fit_scale

    data = options.data
    require_other_file(options.out, [options.judge, *files_of(data)])
    settings = read_yaml(judge_file(options.judge) or options.judge)
    if settings.pop("family", None) != FollowUpJudge.family:
        raise ConfigError(
            f"{options.judge} is not a follow-up judge: trained judges have their own scale"
        )
    judge = FollowUpJudge.from_settings({k: v for k, v in settings.items() if k != "languages"})
    reading = reading_report(options.reading)
    rows = load_spec(data, reading=reading, options=options.reading)[: options.limit]
    reading.show()
    labels = {name for row in rows for name in row.labels}
    own = [d.name for d in judge.dimensions]
    named = options.dimension or [name for name in own if name in labels]
    if not named:
        raise ConfigError(
            f"{data} rates none of {', '.join(own)}",
            hint=f"--dimension, of: {', '.join(sorted(labels))}",
        )
    with ProgressBar("judging") as bar:
        judgements = list(judge.score((r.dialogue for r in rows), progress=bar.advance))
    scale = dict(settings.get("scale") or {})
    for text in named:
        label, _, name = text.partition("=")
        dimension = judge.dimension(name or label)
        raw, units = [], []
        for judgement, row in zip(judgements, rows, strict=True):
            value = judgement.details.get(dimension.name, {}).get("raw")
            rating = row.rating(label)
            average = None if rating is None else mean(rating)
            if value is None or rating is None or average is None:
                continue
            if rating.scale is None:
                raise ConfigError(
                    f"the ratings of {label!r} have no bounds",
                    hint="fit on a set with bounds, such as dstc9:train",
                )
            unit = rescale(average, rating.scale, (0.0, 1.0))
            raw.append(value)
            units.append(1 - unit if dimension.good == "low" else unit)
        fitted = fit_scale(raw, units, dimension)
        scale[dimension.name] = {
            "center": round(fitted["center"], 4),
            "spread": round(fitted["spread"], 4),
            "fitted_on": f"{Path(data).name} {label}, {len(raw)} rows",
        }
        typer.echo(
            f"{dimension.name}: mean absolute error {fitted['error']:.3f} on {len(raw)} rows "
            f"(always the mean rating: {fitted['error_of_mean']:.3f})"
        )
    record = {"family": FollowUpJudge.family, **settings, "scale": scale}
    atomic_write(options.out, yaml.safe_dump(record, sort_keys=False, allow_unicode=True))
    typer.echo(f"wrote {options.out}")
