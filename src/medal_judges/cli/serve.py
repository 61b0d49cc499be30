"""``medal serve JUDGE``: a judge behind HTTP."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

import typer

from medal_judges.cli import options as opt
from medal_judges.errors import MissingExtraError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.shipped import BOXED

ServedJudge = Annotated[
    str, typer.Argument(help="Shipped name (medal judges), YAML file, folder or hub id.")
]
Host = Annotated[
    str, typer.Option("--host", help="Any other address needs a token in MEDAL_JUDGES_TOKEN.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")]
MaxBody = Annotated[
    int, typer.Option("--max-body", min=1, help="MB of a request; a larger one gets 413.")
]
MaxDialogues = Annotated[
    int, typer.Option("--max-dialogues", min=1, help="Dialogues of a request; more get 413.")
]
MaxTurns = Annotated[
    int, typer.Option("--max-turns", min=1, help="Turns of a dialogue; more get 413.")
]
MaxWaiting = Annotated[
    int,
    typer.Option(
        "--max-waiting", min=1, help="Dialogues that wait; a request beyond that gets 429."
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds for a request; a longer one gets 503.")
]
Drain = Annotated[
    float, typer.Option("--drain", min=0, help="Seconds to finish requests after SIGTERM.")
]


def serve(
    judge: ServedJudge = BOXED,
    settings: opt.Overrides = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    token_budget: Annotated[
        int | None, typer.Option("--token-budget", min=1, help="Padded tokens of a batch.")
    ] = None,
    device: opt.Device = None,
    dtype: opt.Dtype = None,
    revision: opt.Revision = None,
    unknown_language: Annotated[
        Literal["warn", "refuse"],
        typer.Option("--unknown-language", help="Languages that the judge was not made for."),
    ] = "warn",
    no_cache: opt.NoCache = False,
    repeats: opt.Repeats = None,
    max_cost: opt.MaxCost = None,
    max_body: MaxBody = 8,
    max_dialogues: MaxDialogues = 256,
    max_turns: MaxTurns = 2000,
    max_waiting: MaxWaiting = 2048,
    timeout: Timeout = 300.0,
    drain: Drain = 30.0,
) -> None:
    """Answer POST /score with judgements; /health, /judge and /metrics tell of the server.

    With --max-cost the server stops asking a paid model before it has spent more in all."""
    try:
        from medal_judges.inference.serving.server import serve as run
    except ImportError as error:
        raise MissingExtraError(str(error.name), "serve", "medal serve") from error
    from medal_judges.inference.serving.guard import require_token, token_of_environment
    from medal_judges.inference.serving.limits import ServeLimits

    token = token_of_environment()
    require_token(host, token)  # before a judge is loaded for nothing
    choice = choose_judge(
        judge, settings or (), device=device, dtype=dtype, revision=revision, repeats=repeats
    )
    loaded = choice.spending(max_cost, no_cache=no_cache).load()
    # Each window would warn of its languages and cut turns; judgements and /metrics tell of them.
    logging.getLogger("medal_judges.models.base.judge").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # nor of what any peer sends
    run(
        loaded,
        host=host,
        port=port,
        token=token,
        options=ScoreOptions(token_budget=token_budget, unknown_language=unknown_language),
        limits=ServeLimits(
            body_bytes=max_body << 20,
            dialogues=max_dialogues,
            turns=max_turns,
            waiting=max_waiting,
            seconds=timeout,
            drain_seconds=drain,
        ),
        ready=lambda address: typer.echo(f"serving {loaded.signature()} on {address}", err=True),
    )
