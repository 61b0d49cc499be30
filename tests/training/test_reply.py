"""The reply models learn what follows an answer, from conversations alone."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from medal_judges.models.linear.reply import ReplyModel
from medal_judges.training.families import reply
from medal_judges.training.families.reply import half_index, train_reply_model

WIDTH = 16


def unit(rows: int, seed: int) -> Tensor:
    return functional.normalize(
        torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed)), dim=-1
    )


def pairs(rows: int, seed: int) -> list[Tensor]:
    """Answers, contexts, and replies that are the answer with its entries in another order."""
    now = unit(rows, seed)
    following = now.roll(3, dims=-1)
    return [
        now,
        unit(rows, seed + 1),
        unit(rows, seed + 2),
        torch.zeros(rows, 2),
        following,
        torch.arange(rows),
    ]


def hits(model: ReplyModel, rows: list[Tensor]) -> float:
    """Share of answers whose own reply is the likeliest of all."""
    expected = model(*rows[:4])
    best = (expected @ model.project_turns(rows[4]).T).argmax(dim=1)
    return float((best == torch.arange(len(best))).float().mean())


def test_training_finds_the_reply_of_new_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model = ReplyModel(WIDTH, features=2, hidden_width=8).eval()
    held_out = pairs(64, seed=100)
    before = hits(model, held_out)
    for name, value in {"EPOCHS": 30, "BATCH_SIZE": 128, "LEARNING_RATE": 3e-3}.items():
        monkeypatch.setattr(reply, name, value)
    train_reply_model(model, pairs(1024, seed=7), torch.Generator().manual_seed(0))
    assert before < 0.2
    assert hits(model, held_out) > 0.9


def test_training_is_the_same_for_the_same_seed() -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        model = ReplyModel(WIDTH, features=2, hidden_width=8)
        # its masks come from the global generator
        model.context[2] = torch.nn.Dropout(0.0)
        train_reply_model(model, pairs(128, seed=3), torch.Generator().manual_seed(0))
        found.append(model.answer.weight.detach().clone())
    assert torch.equal(found[0], found[1])


def test_halves_are_of_groups_and_about_as_large() -> None:
    halves = [half_index(f"g{number}", 0) for number in range(200)]
    assert 60 < sum(halves) < 140 and set(halves) == {0, 1}
    assert half_index("g1", 0) == half_index("g1", 0)
    assert halves != [half_index(f"g{number}", 1) for number in range(200)]
