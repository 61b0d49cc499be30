"""``medal calibrate``: puts a follow-up judge's raw values on the scale that people used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from medal_judges.cli import options as opt
from medal_judges.cli.reading_options import reading_report, reads_chats, show_reading
from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.inference.progress import scoring_bar
from medal_judges.reading.options import ReadOptions
from medal_judges.shipped import judge_file
from medal_judges.storage.files import atomic_write, require_other_file


@reads_chats()
@opt.writes("judge", "data")
def calibrate(
    chats: ReadOptions,
    judge: Annotated[str, typer.Argument(help="YAML file or name of a follow-up judge.")],
    data: Annotated[str, typer.Option("--data", help="Labelled dialogues: spec or file.")],
    out: Annotated[
        Path, typer.Option("--out", help="File to write: the judge with its scale, as YAML.")
    ],
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="LABEL or LABEL=DIMENSION; repeat. Default: same names."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=20, help="First rows only.")] = None,
) -> None:
    """Fit centre and spread of each dimension's scale on human ratings; ranks do not change."""
    from medal_judges.data_prep.sources.registry import files_of, load_spec
    from medal_judges.models.followup.judge import FollowUpJudge
    from medal_judges.training.loop.calibration import fit_scale, human_units

    require_other_file(out, [judge, *files_of(data)])
    settings = _follow_up_settings(judge)
    described = {key: value for key, value in settings.items() if key != "languages"}
    loaded = FollowUpJudge.from_settings(described)
    reading = reading_report(chats)
    rows = load_spec(data, reading=reading, options=chats)[:limit]
    show_reading(reading)
    there = {name for row in rows for name in row.labels}
    own = [d.name for d in loaded.dimensions]
    named = label or [name for name in own if name in there]
    pairs = [(text.partition("=")[0], text.rpartition("=")[2]) for text in named]
    if not pairs:
        raise ConfigError(
            f"{data} rates none of {', '.join(own)}",
            hint=f"--label, of: {', '.join(sorted(there))}",
        )
    with scoring_bar() as advance:
        judgements = list(loaded.score((r.dialogue for r in rows), progress=advance))
    scale = dict(settings.get("scale") or {})
    for name, dimension in pairs:
        kept = [
            (raw, row)
            for j, row in zip(judgements, rows, strict=True)
            if name in row.labels
            and dimension in j.details
            and (raw := j.details[dimension].get("raw")) is not None
        ]
        units = human_units([row for _, row in kept], name, loaded.dimension(dimension))
        fitted = fit_scale([raw for raw, _ in kept], units, loaded.dimension(dimension))
        scale[dimension] = {
            "center": round(fitted.center, 4),
            "spread": round(fitted.spread, 4),
            "fitted_on": f"{Path(data).name} {name}, {fitted.rows} rows",
        }
        typer.echo(
            f"{dimension}: mean absolute error {fitted.error:.3f} on {fitted.rows} rows "
            f"(always the mean rating: {fitted.error_of_mean:.3f})"
        )
    record = {"family": FollowUpJudge.family, **settings, "scale": scale}
    atomic_write(out, yaml.safe_dump(record, sort_keys=False, allow_unicode=True))
    typer.echo(f"wrote {out}")


def _follow_up_settings(judge: str) -> dict[str, Any]:
    from medal_judges.models.followup.judge import FollowUpJudge

    settings = read_yaml(judge_file(judge) or judge)
    if settings.pop("family", None) != FollowUpJudge.family:
        raise ConfigError(f"{judge} is no follow-up judge: trained judges bring their own scale")
    return settings
