"""An encoder judge as a model of transformers: ``pipeline("text-classification")`` scores with it.

Exactly these judges can be exported: family encoder with ``net: sequence`` (so ``shape: flat``, one
vector of the whole dialogue, no features), one member, one dimension with a regression head and no
isotonic calibration, on a body of kind bert, roberta or xlm-roberta (``pooling: cls``) or
modernbert (``pooling: cls`` or ``mean``). Every other judge looks at single turns, or at several
dimensions, which such a model does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.base.judge import Judge
from medal_judges.models.encoder.body import settings_of
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.records.dialogue import Dialogue

KINDS = {
    "bert": ("cls",),
    "roberta": ("cls",),
    "xlm-roberta": ("cls",),
    "modernbert": ("cls", "mean"),
}
TOLERANCE = 1e-5  # as a share of the dimension's scale, fp32 on CPU


def export_judge(judge: Judge, folder: Path) -> float:
    """Write ``judge`` to ``folder`` as a ``...ForSequenceClassification`` with its tokenizer.

    The model answers on the dimension's own scale (``problem_type`` regression) without clipping
    to it. Loads what was written in a pipeline and returns its largest difference from the judge on
    the golden dialogues, as a share of the scale. Raises ConfigError for a judge that cannot be
    exported, MedalError when the two differ by more than 1e-5.
    """
    able = require_exportable(judge)
    model = _model_of(able)
    model.save_pretrained(folder)
    able.tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(_readme(able), encoding="utf-8")
    worst = _difference(able, folder)
    if worst > TOLERANCE:
        raise MedalError(
            f"{folder}: the exported model differs from the judge by {worst:.1e} of the scale",
            hint="its tokenizer reads a dialogue differently as one text: train on another body",
        )
    return worst


def require_exportable(judge: Judge) -> EncoderJudge:
    """``judge`` where it can be exported; else ConfigError with all that stands against it."""
    reasons = list(_reasons(judge)) if isinstance(judge, EncoderJudge) else [f"a {judge.family}"]
    if reasons:
        raise ConfigError(
            f"this judge cannot be a plain model of transformers: {'; '.join(reasons)}",
            hint="train one with model.net=sequence model.shape=flat model.pooling=cls "
            "'model.features=[]' and a rubric of one dimension; medal score works with every judge",
        )
    assert isinstance(judge, EncoderJudge)
    return judge


def _reasons(judge: EncoderJudge) -> Iterator[str]:
    config, kind = judge.config, judge.net.body.config.model_type
    if config.net != "sequence":
        yield f"net {config.net} looks at single turns"
        return
    if config.pooling not in KINDS.get(kind, ()):
        yield f"pooling {config.pooling} on a {kind} body"
    if config.members > 1:
        yield f"{config.members} members"
    if len(judge.dimensions) > 1:
        yield f"{len(judge.dimensions)} dimensions"
    kinds = {head.config.kind for head in judge.net.heads[0].values()}
    if kinds != {"regression"}:
        yield f"a {', '.join(sorted(kinds - {'regression'}))} head"
    if any(c.isotonic is not None for c in judge.calibration.values()):
        yield "an isotonic calibration"


def as_text(judge: EncoderJudge, dialogue: Dialogue) -> str:
    """``dialogue`` as the one text that a pipeline takes: its newest turns that fit the window."""
    kept = dialogue.turns[judge.turns.encode(dialogue).dropped :]
    mark = judge.tokenizer.sep_token or ""
    return "".join(f"{turn.role}: {turn.content}{mark}" for turn in kept)


def pipeline_scores(
    judge: EncoderJudge, folder: Path, dialogues: Sequence[Dialogue]
) -> list[float]:
    """Scores of the exported model in ``folder``, through ``pipeline("text-classification")``."""
    from transformers import pipeline

    made = pipeline("text-classification", model=str(folder), device="cpu")
    limit = {"truncation": True, "max_length": judge.config.max_tokens}
    answers = made([as_text(judge, dialogue) for dialogue in dialogues], **limit)
    return [float(answer["score"]) for answer in answers]


def _difference(judge: EncoderJudge, folder: Path) -> float:
    (dimension,) = judge.dimensions
    dialogues = [d for d in golden_dialogues() if d.assistant_turns]
    exported = pipeline_scores(judge, folder, dialogues)
    own = [j.scores[dimension.name] for j in judge.score(dialogues)]
    clipped = [min(dimension.high, max(dimension.low, value)) for value in exported]
    pairs = zip(clipped, own, strict=True)
    return max(abs(dimension.to_unit(a) - dimension.to_unit(b)) for a, b in pairs if b is not None)


def _model_of(judge: EncoderJudge) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    (dimension,) = judge.dimensions
    config = AutoConfig.for_model(**settings_of(judge.net.body))
    config.num_labels, config.problem_type = 1, "regression"
    config.id2label, config.label2id = {0: dimension.name}, {dimension.name: 0}
    if config.model_type == "modernbert":
        config.classifier_pooling = judge.config.pooling
    model: Any = AutoModelForSequenceClassification.from_config(  # type: ignore[no-untyped-call]
        config, trust_remote_code=False
    )
    net: Any = judge.net.nets[0]
    body = getattr(model, model.base_model_prefix)
    body.load_state_dict(judge.net.body.state_dict(), strict=config.model_type != "bert")
    if config.model_type == "bert":  # its dense layer is the body's pooler
        dense, output = model.bert.pooler.dense, model.classifier
    elif config.model_type == "modernbert":
        dense, output = model.head.dense, model.classifier
        model.head.norm.load_state_dict(net.norm.state_dict())
    else:
        dense, output = model.classifier.dense, model.classifier.out_proj
    dense.load_state_dict(net.dense.state_dict())
    head, scale = net.heads[dimension.name], dimension.high - dimension.low
    with torch.no_grad():  # the judge's head is on the scale [0, 1]
        output.weight.copy_(head.value.weight * scale)
        output.bias.copy_(dimension.low + head.bias * scale)
    return model.eval()


def _readme(judge: EncoderJudge) -> str:
    (dimension,) = judge.dimensions
    mark = judge.tokenizer.sep_token or ""
    return f"""---
library_name: transformers
pipeline_tag: text-classification
---

# {judge.name}: {dimension.name}

Exported from a judge of `medal_judges` (`{judge.signature()}`). The score is a number on the scale
{dimension.low:g} to {dimension.high:g} ({dimension.good} is good), not clipped to it.

A dialogue is one text, each turn as `role: words{mark}`; where it is longer than \
{judge.config.max_tokens} tokens, leave out whole turns from the beginning.

```python
from transformers import pipeline

score = pipeline("text-classification", model="FOLDER")
print(score("user: Hi!{mark}assistant: Hello, how are you?{mark}"))
```
"""
