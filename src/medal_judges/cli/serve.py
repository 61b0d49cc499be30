"""``medal serve``: runs a judge as an HTTP server."""

from __future__ import annotations

import logging

import typer

from medal_judges.cli.options import from_options
from medal_judges.config import BOXED, Config, option
from medal_judges.errors import MissingExtraError
from medal_judges.inference.judge_choice import JudgeOptions

try:
    from medal_judges.inference.serving.app import ServeLimits
except ImportError as error:
    raise MissingExtraError(str(error.name), "serve", "medal serve") from error


class _ServedJudge(JudgeOptions):
    judge: str = option(
        BOXED,
        argument=True,
        help="Shipped name (medal judges), YAML file, folder or hub id.",
    )


class ServeOptions(Config):
    judge: _ServedJudge = _ServedJudge()
    host: str = option(
        "127.0.0.1",
        help="Address; other than loopback needs a token in MEDAL_JUDGES_TOKEN.",
    )
    port: int = option(8000, ge=0, le=65535, help="Port; 0 is any free one.")
    limits: ServeLimits = ServeLimits()


@from_options
def serve(options: ServeOptions) -> None:
    """Answer POST /score with judgements; /health, /judge and /metrics describe the server. With
    --max-cost the server stops using a paid model before it spends more in total.

    Example: medal serve boxed --port 8000
    """
    from medal_judges.inference.serving.server import serve as run
    from medal_judges.inference.serving.server import token_for

    token = token_for(options.host)  # before a judge is loaded for nothing
    judge = options.judge.choose().load()
    # Each window would warn about languages and truncation; judgements have both.
    logging.getLogger("medal_judges.models.base.judge").setLevel(logging.ERROR)
    # nor what any client sends
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    run(
        judge,
        host=options.host,
        port=options.port,
        token=token,
        limits=options.limits,
        ready=lambda address: typer.echo(
            f"serving {judge.signature()} on {address}", err=True
        ),
    )
