"""The family ``turns`` in a run: ridge regressions on the vectors of turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.batching import budget_batches
from medal_judges.models.device import has_bf16
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.models.turns.net import EncodedDialogue, TurnBatch, collate
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.signature import content_hash
from medal_judges.training.agreement import ScoredExamples, scores_of_logits
from medal_judges.training.balance import balanced
from medal_judges.training.calibration import fit_calibrations
from medal_judges.training.config import TrainConfig, refuse_steps
from medal_judges.training.families.reply import fit_reply
from medal_judges.training.families.ridge import fit_ridge
from medal_judges.training.fitted import FittedJudge, TrainingRun
from medal_judges.training.rows import TrainingExample, spread
from medal_judges.training.validation import validation_figures

_LEAST_DEVIATION = 1e-3  # a measure that never varies must not be large on a new domain
_ROWS_AT_ONCE = 128  # whose turns are read together


def check(config: TrainConfig) -> None:
    """Raises ValueError for settings that have no closed form."""
    refuse_steps(config)
    model = config.model
    if model.net != "linear" or model.shape != "hierarchical":
        raise ValueError("family turns is solved in closed form: model.net: linear")
    by_level = model.level_dimensions()
    if by_level:
        raise ValueError(
            f"family turns is solved in closed form, model.heads.{min(by_level)} is not: set its "
            "kind to regression or binary, or train family: encoder"
        )
    if model.pooling != "role":
        raise ValueError(
            "family turns solves for the mean over a role's turns, so that "
            f"model.pooling: {model.pooling} would score with other numbers: "
            "set model.pooling: role"
        )


def fit(run: TrainingRun) -> FittedJudge:
    """Fits what the net reads, and solves for its weights."""
    config, rows = run.config, run.rows
    torch.manual_seed(config.seed)
    model = balanced(config.model, rows.train)
    judge = TurnsJudge.create(model, run.dimensions, name=config.name)
    data = TurnsDataset(
        judge, rows.train, reads_in_bf16(config.optim.mixed_precision, judge.device)
    )
    fit_feature_scale(judge, data)
    if model.reply is not None:
        fit_reply(judge, data, config.seed)
        fit_feature_scale(judge, data)  # again: now the reactions mean something
    fit_ridge(judge, data, config.optim.embedding_share, config.seed)
    # A thousand turns are enough for a mean.
    fit_turn_means(judge, [example.dialogue for example in spread(rows.train, 64)])
    judge.facts = {"seed": config.seed, "data": content_hash(rows.facts)}
    if not rows.validation:
        return FittedJudge(judge)
    logits = judge_logits(judge, rows.validation)
    first = dict(judge.net.heads[0].items())
    judge.calibration = fit_calibrations(rows.validation, logits, first, config.calibration)
    raw = {name: first[name].scores(torch.from_numpy(z), 1.0).numpy() for name, z in logits.items()}
    binary = {name for name, head in first.items() if head.config.kind == "binary"}
    scored = ScoredExamples(rows.validation, scores_of_logits(first, logits, judge.calibration))
    figures = validation_figures(rows.validation, raw, binary)
    return FittedJudge(judge, figures, {"validation": scored})


@torch.inference_mode()
def judge_logits(judge: TurnsJudge, examples: Sequence[TrainingExample]) -> dict[str, np.ndarray]:
    """Returns the logits [n, outputs] of each dimension."""
    logits: dict[str, list[np.ndarray]] = {name: [] for name in judge.net.names}
    for start in range(0, len(examples), judge.window):
        window = examples[start : start + judge.window]
        requests = [ScoreRequest(example.dialogue, None) for example in window]
        judge._prepare(requests)
        for request in requests:
            members = [member[0] for member in judge.members([request])]
            for name, rows in logits.items():
                rows.append(judge.net.combine(members, name).cpu().numpy())
    return {name: np.concatenate(rows) for name, rows in logits.items()}


def reads_in_bf16(precision: str, device: torch.device) -> bool:
    """Whether a frozen body is read in bf16; ``auto``: if the device multiplies bf16, which is 3 to
    4 times as fast.

    The judge itself scores in fp32. The rounding is noise of a thousandth in the turn vectors, so
    that training gives other weights on machines with and without such hardware.
    """
    return has_bf16(device) if precision == "auto" else precision == "bf16"


class TurnsDataset:
    """Dialogues as the net reads them: every distinct turn is encoded once, into ``table``, in bf16
    if ``bf16``; ``row`` is its row by text."""

    def __init__(
        self, judge: TurnsJudge, examples: Sequence[TrainingExample], bf16: bool = False
    ) -> None:
        self.judge, self.examples = judge, examples
        self.encoded = [judge.turns.encode(example.dialogue) for example in examples]
        texts = list(dict.fromkeys(text for one in self.encoded for text in one.texts))
        self.row = {text: number for number, text in enumerate(texts)}
        with torch.autocast(judge.device.type, torch.bfloat16, enabled=bf16):
            self.table = judge.embed_texts(texts)

    def inputs(self, rows: Sequence[int]) -> dict[str, Any]:
        """``batch``, and ``vectors`` [B, T, H]."""
        chosen = [self.encoded[row] for row in rows]
        batch = collate(chosen)
        return {"batch": batch, "vectors": self.table[_index(chosen, batch, self.row)]}

    def numbers(self, rows: Sequence[int]) -> Tensor:
        """Number of each turn's distinct text [B, T], 0 on padding too."""
        chosen = [self.encoded[row] for row in rows]
        return _index(chosen, collate(chosen), self.row)

    def vectors(self, rows: Sequence[int]) -> list[Tensor]:
        """Turn vectors [T, H] of each of the examples ``rows``."""
        return [self.table[[self.row[text] for text in self.encoded[row].texts]] for row in rows]


def _index(chosen: Sequence[EncodedDialogue], batch: TurnBatch, rows: dict[str, int]) -> Tensor:
    index = torch.zeros(batch.mask.shape, dtype=torch.long)
    for line, one in enumerate(chosen):
        index[line, : len(one.texts)] = torch.tensor([rows[text] for text in one.texts])
    return index


# -- what the net subtracts from its inputs and divides them by ------------------------------------


@torch.no_grad()
def fit_feature_scale(judge: TurnsJudge, data: TurnsDataset, rows: int = 4000) -> None:
    """Mean and deviation per role of the net's features, and mean of its unit turn embeddings, over
    the first ``rows`` of the training set; each source counts the same. Of a body that learns: by
    its first weights."""
    net = judge.net
    tables: list[dict[str, list[tuple[np.ndarray, np.ndarray]]]] = [{}, {}]  # by role and source
    count = min(rows, len(data.examples))
    for start in range(0, count, _ROWS_AT_ONCE):
        numbers = range(start, min(count, start + _ROWS_AT_ONCE))
        for row, own in zip(numbers, data.vectors(numbers), strict=True):
            batch = collate([data.encoded[row]]).to(judge.device)
            vectors = own.unsqueeze(0).to(judge.device)
            features = net.raw_features(vectors, batch)[0].cpu().numpy()
            unit = functional.normalize(vectors[0].float(), dim=-1).cpu().numpy()
            roles, source = batch.roles[0].cpu().numpy(), data.examples[row].source
            for role in (0, 1):
                mine = roles == role
                tables[role].setdefault(source, []).append((features[mine], unit[mine]))
    for role in (0, 1):
        each = [
            [np.concatenate(column) for column in zip(*t, strict=True)]
            for t in tables[role].values()
        ]
        each = [columns for columns in each if len(columns[0]) > 1]
        if not each:
            continue
        middle = np.mean([features.mean(0) for features, _ in each], axis=0)
        spread = np.mean([features.std(0) for features, _ in each], axis=0)
        spread = np.maximum(spread, _LEAST_DEVIATION)
        net.feature_mean[role, : len(middle)] = torch.tensor(middle)
        net.feature_std[role, : len(spread)] = torch.tensor(spread)
        net.embedding_mean[role] = torch.tensor(np.mean([unit.mean(0) for _, unit in each], axis=0))


@torch.inference_mode()
def fit_turn_means(judge: TurnsJudge, dialogues: Sequence[Dialogue]) -> None:
    """Set ``judge.turn_means``, around which contributions are reported: per dimension what a turn
    of the user, and one of the assistant, adds to ``Head.linear`` on average, weighted as the head
    pools them; a side that never speaks has 0."""
    sums = {d.name: np.zeros((2, 2)) for d in judge.dimensions}  # evidence and weight, by role
    for start in range(0, len(dialogues), judge.window):
        given = dialogues[start : start + judge.window]
        items = [ScoreRequest(dialogue, None) for dialogue in given]
        judge._prepare(items)
        for batch in budget_batches(items, lambda item: item.tokens, judge.token_budget):
            members = judge.members(batch)
            for name, total in sums.items():
                for k in (0, 1):
                    table = judge.net.combine([m[k + 1] for m in members], name).cpu().numpy()
                    for row, item in zip(table, batch, strict=True):
                        roles = item.payload[0].roles
                        if row.size:  # the net ``sequence`` does not tell turns apart
                            own = row[: len(roles)]
                            total[k] += [own[roles == role].sum() for role in (0, 1)]
    judge.turn_means = {}
    for name, (evidence, weight) in sums.items():
        user, assistant = np.divide(evidence, weight, out=np.zeros(2), where=weight > 0).tolist()
        judge.turn_means[name] = (user, assistant)
