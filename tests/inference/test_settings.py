"""FIELD=VALUE settings of judges in YAML."""

from __future__ import annotations

import pytest

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.ray_judge import gpu_share

CONTRAST = "configs/judges/contrast.yaml"


def test_one_field_of_a_group_leaves_the_others() -> None:
    found = choose_judge(
        CONTRAST, ["llm.dtype=bf16", "scale.overall.center=1.5"]
    ).options
    assert found["llm"] == {"model": "embedded:smollm2", "dtype": "bf16"}
    assert found["scale"]["overall"] == pytest.approx(
        found["scale"]["overall"] | {"center": 1.5, "spread": 6.36}
    )
    assert found["scale"]["engaging"]["center"] == pytest.approx(-2.58)


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7, 16])
def test_all_processes_find_room_on_the_gpus(gpus: int, processes: int) -> None:
    share = gpu_share(gpus, processes)
    assert 0 < share <= 1 and gpus * int(1 / share) >= processes
    assert gpu_share(0, processes) == 0


@pytest.mark.parametrize(
    ("judge", "setting"),
    [
        *(("length", "foo=1"), ("length", "repeats=3"), ("length", "llm.cache=false")),
        *(("repetition", "truncation.x=3"), ("repetition", "features.copy.x=1")),
        *(("boxed", "foo=1"), ("boxed", "llm=x"), ("issues", "repeats=3")),
        *((CONTRAST, "foo=1"), (CONTRAST, "llm.foo=1")),
    ],
)
def test_no_setting_is_accepted_and_ignored(judge: str, setting: str) -> None:
    with pytest.raises((ConfigError, JudgeLoadError), match=r"setting|unknown key|key"):
        choose_judge(judge, [setting]).load()
