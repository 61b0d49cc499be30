"""``medal data followups``: a pool of follow-ups, proposed by language models, for a person to
read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def followups(
    out: Annotated[Path, typer.Option("--out", help="YAML file of the pool.")],
    llm: Annotated[
        list[str] | None,
        typer.Option("--llm", help="Who proposes; repeat for CRAFT (several, not the judge)."),
    ] = None,
    sign: Annotated[
        list[str] | None, typer.Option("--sign", help="negative, positive, or both (repeat).")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Asked for at a time.")] = 12,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Times each is asked.")] = 4,
    temperature: Annotated[float, typer.Option("--temperature", min=0)] = 0.8,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=16)] = 400,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    strategy: Annotated[
        str | None,
        typer.Option("--strategy", help="selfmap (one --llm, which judges) or craft (others)."),
    ] = None,
    prompt: Annotated[str, typer.Option("--prompt")] = "prompts/diet_generation",
) -> None:
    """Have language models propose follow-ups (DIET's meta-prompt); read the file before use."""
    import yaml

    from medal_judges.errors import ConfigError, MedalError
    from medal_judges.models.followup.generation import make_pool, propose

    signs = sign or ["negative"]
    if unknown := [s for s in signs if s not in ("negative", "positive")]:
        raise ConfigError(f"--sign must be negative or positive, not {unknown[0]!r}")
    if strategy not in (None, "selfmap", "craft"):
        raise ConfigError(f"--strategy must be selfmap or craft, not {strategy!r}")
    if strategy == "selfmap" and len(llm or ["one"]) != 1:
        raise ConfigError("--strategy selfmap has one --llm: the model that will judge")
    if out.exists():
        raise MedalError(f"{out} is there already", hint="give another --out: pools are reviewed")
    models = llm or ["embedded:smollm2"]
    found = propose(
        models,
        signs=signs,  # type: ignore[arg-type]  # checked above
        count=count,
        samples=samples,
        temperature=temperature,
        seed=seed,
        prompt=prompt,
        max_tokens=max_tokens,
    )
    if not found:
        raise MedalError(
            "no answer held a list of utterances",
            hint="a larger model, more --samples, or a lower --temperature",
        )
    method = f"{prompt}, {samples} samples, temperature {temperature:g}, seed {seed}"
    pool = make_pool(out.stem, found, method=method, strategy=strategy)  # type: ignore[arg-type]  # checked above
    record = pool.model_dump(exclude_defaults=True, mode="json")
    out.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100)
    out.write_text(text, encoding="utf-8")
    typer.echo(f"{len(found)} follow-ups in {out}: read it, take out what no user would say")
