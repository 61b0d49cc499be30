"""Slices: the same figure by language and by chatbot, judges side by side."""

from __future__ import annotations

from medal_judges.eval.page.arrangement import Arrangement, SetKey
from medal_judges.report.markup import (
    Group,
    details,
    escape,
    estimate_cell,
    figure_text,
    number_cell,
    row_head,
    section,
    sortable,
)
from medal_judges.report.numbers import label, like_for_like, primary_metric, under_floor
from medal_judges.report.numbers import shown as shown_metric
from medal_judges.stats.results import Estimate, ResultRow

_NOTE = (
    '<p class="note">○: like for like, the judge against those whom the human ceiling is held '
    "against, on the same rows; only ○ and the ceiling compare.</p>"
)
_NAMES = {"lang": "Languages", "chatbot": "Chatbots"}


def slices(view: Arrangement, part: str) -> str:
    """The section of ``part`` ('lang' or 'chatbot'); empty where no row was sliced so."""
    bodies = []
    for key in view.sets:
        sliced = [d for d in view.dimensions(key) if slice_names(view, key, d, part)]
        if not sliced:
            continue
        names = slice_names(view, key, sliced[0], part)
        if len(names) == 1:  # a table would only repeat the leaderboard
            bodies.append(f'<p class="note">{escape(key.label)}: only {escape(names[0])}.</p>')
            continue
        bodies.append(_table(view, key, sliced[0], part))
        more = "".join(_table(view, key, dimension, part) for dimension in sliced[1:])
        if more:
            bodies.append(details(f"{key.label}: {len(sliced) - 1} more dimensions", more))
    return section(f"by-{part}", _NAMES.get(part, part), "".join(bodies))


def slice_names(view: Arrangement, key: SetKey, dimension: str, part: str) -> list[str]:
    """Names such as ``de`` of the slices of a set, sorted."""
    found = {name for row in view.rows(key, dimension) for name in row.slices}
    return sorted(name.split(":", 1)[1] for name in found if name.startswith(f"{part}:"))


def _table(view: Arrangement, key: SetKey, dimension: str, part: str) -> str:
    metric = primary_metric(view.kind(key, dimension))
    rows = view.rows(key, dimension)
    body = []
    for name in slice_names(view, key, dimension, part):
        sizes = [row.slice_sizes.get(f"{part}:{name}") for row in rows]
        size = next((s for s in sizes if s is not None), None)
        ceiling = view.slice_ceiling(key, dimension, f"{part}:{name}", metric)
        cells = "".join(_cells(row, f"{part}:{name}", metric, ceiling) for row in rows)
        lead = row_head(name) + number_cell(size, "size not recorded")
        body.append(lead + cells + estimate_cell(ceiling))
    ceiling = view.ceiling(key, dimension, metric)
    whole = "".join(
        _pair(shown_metric(row, metric), like_for_like(row, metric), ceiling) for row in rows
    )
    pinned = row_head("all") + number_cell(rows[0].n) + whole + estimate_cell(ceiling)
    group = Group(body, pinned=[pinned], pinned_kind="total")
    title = f"{key.label}: {dimension}, {label(metric)} by {_NAMES.get(part, part).lower()[:-1]}"
    head = "Language" if part == "lang" else "Chatbot"
    columns = [head, "n", *(row.judge for row in rows), "human ceiling"]
    return sortable(title, columns, [group]) + _NOTE


def _cells(row: ResultRow, name: str, metric: str, ceiling: Estimate) -> str:
    like = row.slice_like_for_like.get(name, {}).get(metric)
    return _pair(_slice(row, name, metric), None if under_floor(row) else like, ceiling)


def _pair(figure: Estimate | None, like: Estimate | None, ceiling: Estimate) -> str:
    """The figure, and like for like under it where there is a ceiling to compare with."""
    below = ""
    if ceiling.value is not None and like is not None and like.value is not None:
        below = f'<br><span class="ci">○ {figure_text(like, brief=True)}</span>'
    return estimate_cell(figure, below=below)


def _slice(row: ResultRow, name: str, metric: str) -> Estimate | None:
    if under_floor(row):
        return shown_metric(row, metric)
    found = row.slices.get(name)
    return None if found is None else found.get(metric)
