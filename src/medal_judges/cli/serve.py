"""``medal serve``: runs a judge as an HTTP server."""

from __future__ import annotations

import logging

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import BOXED, DEVICE, MAX_COST, OVERRIDES, option
from medal_judges.errors import MissingExtraError
from medal_judges.inference.judge_choice import choose_judge

try:
    from medal_judges.inference.serving.app import ServeLimits
except ImportError as error:
    raise MissingExtraError(str(error.name), "serve", "medal serve") from error


@with_options()
def serve(
    *,
    judge: str = option(
        BOXED,
        argument=True,
        help="Shipped name (medal judges), YAML file, folder or Hub id.",
    ),
    settings: tuple[str, ...] = OVERRIDES,
    device: str | None = DEVICE,
    max_cost: float | None = MAX_COST,
    host: str = option(
        "127.0.0.1",
        help="Address. One that other machines reach needs a token in MEDAL_JUDGES_TOKEN.",
    ),
    port: int = option(8000, ge=0, le=65535, help="Port. 0 takes any free one."),
    limits: ServeLimits,
) -> None:
    """Score chats over HTTP: POST /score answers with scores. /health, /judge and /metrics describe
    the server.

    With --max-cost the server stops using a paid model before the total cost is above the limit.

    Example: medal serve boxed --port 8000
    """
    from medal_judges.inference.serving.server import serve as run
    from medal_judges.inference.serving.server import token_from_environment

    token = token_from_environment(host)  # before a judge is loaded for nothing
    loaded = choose_judge(judge, settings, device=device).with_spending(max_cost).load()
    # Each window would warn about languages and truncation; judgements have both.
    logging.getLogger("medal_judges.models.base.judge").setLevel(logging.ERROR)
    # nor what any client sends
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    run(
        loaded,
        host=host,
        port=port,
        token=token,
        limits=limits,
        ready=lambda address: typer.echo(
            f"serving {loaded.signature()} on {address}", err=True
        ),
    )
