"""Configs: typed, unknown keys refused with the nearest known one, overrides that reach inside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from medal_judges.config import Config, apply_overrides, load_config, parse_yaml
from medal_judges.errors import ConfigError


class Optimizer(Config):
    learning_rate: float = 1e-3
    warmup: float = 0.0


class Head(Config):
    name: str
    weight: float = 1.0


class Run(Config):
    name: str = "run"
    seed: int | None = 7
    optimizer: Optimizer = Optimizer()
    heads: tuple[Head, ...] = ()
    last: Head = Head(name="b", weight=2)
    scales: dict[str, float] = Field(default_factory=dict)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(
        "name: été\nseed: 3\noptimizer:\nheads: [{name: a}]\n", encoding="utf-8"
    )
    return path


def test_file_then_overrides(file: Path) -> None:
    with_none = file.with_name("empty.yaml")
    with_none.write_text("optimizer: {warmup: 0.1}\n")
    assert load_config(Run, with_none).optimizer == Optimizer(warmup=0.1)
    config = load_config(
        Run, file, ["optimizer.learning_rate=1e-5", "scales.de=2", "name=a=b"]
    )
    assert config.optimizer == Optimizer(learning_rate=1e-5)
    assert config.scales == {"de": 2.0}
    assert config.name == "a=b"
    assert config.heads == (Head(name="a"),)
    given = ["optimizer.warmup=0", "heads.0.weight=3", "last.name=c"]
    config = load_config(Run, file, given)
    assert (*config.heads, config.last) == (Head(name="a", weight=3), Head(name="c"))


class Round(Config):
    shape: Literal["round"] = "round"
    radius: float = 1.0


class Square(Config):
    shape: Literal["square"] = "square"
    side: float | Literal["auto"] = 1.0


class Drawing(Config):
    name: str = ""
    form: Annotated[Round | Square, Field(discriminator="shape")] = Round()


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "form={shape: round, radus: 2}",
            "unknown key 'form.radus'. Did you mean 'radius'?",
        ),
        (
            "form={shape: square, side: wide}",
            "form.side: Input should be a valid number",
        ),
        ("form={shape: square, side: wide}", "form.side: Input should be 'auto'"),
    ],
)
def test_a_key_is_named_as_it_is_typed(
    override: str, words: str, tmp_path: Path
) -> None:
    """Pydantic calls them form.round.radus, form.square.side.float, ..."""
    (tmp_path / "drawing.yaml").write_text("name: 2026-11-27\n")
    with pytest.raises(ConfigError) as caught:
        load_config(Drawing, tmp_path / "drawing.yaml", [override])
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, text) for text in ("2026-11-27T10:00:00Z", "no", "1:59:59", "1_000")),
        *(("1e-5", 1e-5), ("-3", -3), (".5", 0.5), ("TRUE", True), ("~", None)),
    ],
)
def test_a_value_is_read_as_yaml_1_2_reads_it(text: str, value: object) -> None:
    assert parse_yaml(f"a: {text}", "x") == {"a": value}


# override -> the key that the message names
BAD = {
    "optimizer.learning_rat=1": "optimizer.learning_rat",
    "heads=[{name: a, wieght: 2}]": "heads.0.wieght",
    "seed=many": "seed",
    "optimizer.warmup=[1": "optimizer.warmup",
    "=1": "=1",
}


@pytest.mark.parametrize("override", BAD)
def test_a_wrong_setting_is_named(override: str, file: Path) -> None:
    with pytest.raises(ConfigError, match=BAD[override]):
        load_config(Run, file, ["optimizer.warmup=0", override])


@pytest.mark.parametrize(
    "overrides",
    [
        ["llm=openai:x", "llm.context=8192", "llm.seed.a=1"],
        ["llm.context=8192", "llm.seed.a=1", "llm=openai:x"],
        ["llm.seed.a=1", "llm=openai:x", "llm.context=8192"],
    ],
)
def test_the_order_of_overrides_does_not_matter(overrides: list[str]) -> None:
    data = apply_overrides({"llm": "embedded:smollm2"}, overrides)
    assert data == {"llm": {"model": "openai:x", "context": 8192, "seed": {"a": 1}}}
