"""An exported judge is the same judge in pipeline("text-classification"), to 1e-5 of the scale."""

from pathlib import Path

import pytest
import torch

from medal_judges import Judge
from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import check_golden, golden_dialogues, write_golden
from medal_judges.models.base.heads import Calibration, HeadConfig
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.hf_export import export_judge, pipeline_scores
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dimension import Dimension, load_rubric

OVERALL = Dimension("overall", "ordinal", 1, 5)


def judge(base: Path, pooling: str, **settings: object) -> EncoderJudge:
    """A judge with a random dense layer and a head whose scores spread over the scale."""
    torch.manual_seed(0)
    plain = {"net": "sequence", "shape": "flat", "features": (), "max_tokens": 64}
    config = EncoderConfig(base=str(base), pooling=pooling, **(plain | settings))  # type: ignore[arg-type]
    made = EncoderJudge.create(config, [OVERALL], name="plain", device="cpu")
    torch.nn.init.normal_(made.net.nets[0].heads["overall"].value.weight, std=0.05)  # type: ignore[index, union-attr]
    return made


@pytest.fixture(params=["bert cls", "modernbert cls", "modernbert mean"])
def plain(request: pytest.FixtureRequest, tiny_bert: Path, tiny_modernbert: Path) -> EncoderJudge:
    kind, pooling = request.param.split()
    return judge({"bert": tiny_bert, "modernbert": tiny_modernbert}[kind], pooling)


def test_the_pipeline_agrees_with_the_judge(plain: EncoderJudge, tmp_path: Path) -> None:
    plain.calibration["overall"] = Calibration(spread=0.2)  # of the distribution, not of the score
    assert export_judge(plain, tmp_path / "model") <= 1e-5
    dialogues = [d for d in golden_dialogues() if d.assistant_turns]
    own = [j.scores["overall"] for j in plain.score(dialogues)]
    assert len(set(own)) > 5 and all(1 < float(s or 0) < 5 for s in own)  # not a constant, not cut
    found = pipeline_scores(plain, tmp_path / "model", dialogues)
    assert found == pytest.approx(own, abs=4e-5)


def test_a_saved_one_is_exported_too_and_has_no_contributions(
    plain: EncoderJudge, tmp_path: Path
) -> None:
    folder = plain.save_pretrained(tmp_path / "judge")
    write_golden(plain, folder)
    assert check_golden(folder) <= 1e-6
    loaded = Judge.from_pretrained(folder, device="cpu")
    assert export_judge(loaded, tmp_path / "model") <= 1e-5
    (found,) = loaded.score(golden_dialogues()[:1])
    assert not found.contributions and found.distributions == {}


def test_others_are_refused_with_every_reason(tiny_bert: Path, tmp_path: Path) -> None:
    two = judge(tiny_bert, "mean", members=2, heads={"overall": HeadConfig(kind="ordinal")})
    with pytest.raises(ConfigError, match="pooling mean on a bert body; 2 members; a ordinal head"):
        export_judge(two, tmp_path)
    turns = EncoderJudge.create(EncoderConfig(base=str(tiny_bert), max_tokens=64), [OVERALL])
    with pytest.raises(ConfigError, match="net transformer looks at single turns"):
        export_judge(turns, tmp_path)
    with pytest.raises(ConfigError, match="a feature"):
        export_judge(Judge.from_pretrained("configs/judges/length.yaml"), tmp_path)
    bent = judge(tiny_bert, "cls")
    bent.calibration["overall"] = Calibration(isotonic=((0.0, 1.0), (0.2, 0.9)))
    with pytest.raises(ConfigError, match="an isotonic calibration"):
        export_judge(bent, tmp_path)
    config = bent.config
    many = EncoderJudge.create(config, load_rubric("medal"))
    with pytest.raises(ConfigError, match=r"\d+ dimensions"):
        export_judge(many, tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"net": "sequence"},
        {"net": "sequence", "shape": "flat", "pooling": "cls"},
        {"pooling": "mean"},
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="net: sequence"):
        EncoderConfig(**settings)  # type: ignore[arg-type]


def test_a_real_tokenizer_reads_the_text_as_the_judge_reads_the_turns(tmp_path: Path) -> None:
    made = judge(Path("embedded:minilm"), "cls", max_tokens=48)  # some golden dialogues are cut
    assert any(j.truncated_turns for j in made.score(golden_dialogues()))
    assert export_judge(made, tmp_path / "model") <= 1e-5
