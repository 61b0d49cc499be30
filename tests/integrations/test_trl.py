"""A GRPO step of the real library with a judge as reward, on a model built on the spot."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judge
from medal_judges.integrations.trl import JudgeReward


class CountingJudge:
    """Counts the chats that its judge is given."""

    def __init__(self, judge: Judge) -> None:
        self.inner, self.asked = judge.score, 0
        judge.score = self.score  # type: ignore[method-assign]

    def score(self, dialogues: Sequence[Any], **options: Any) -> Any:
        self.asked += len(dialogues)
        return self.inner(dialogues, **options)


def test_rewards_grow_with_what_a_user_wants(chat: Callable[..., Any]) -> None:
    reward = JudgeReward("length")
    counting = CountingJudge(reward.judge)
    prompts = [chat(3)[:1]] * 4
    said = [[{"role": "assistant", "content": "word " * n}] for n in (2, 20, 20, 2)]
    logged: dict[str, float] = {}
    got = reward(
        prompts, said, log_metric=logged.__setitem__, trainer_state=None, other=[1] * 4
    )
    assert got[0] == got[3] < got[1] == got[2] and counting.asked == 2
    assert all(each is not None and 0 <= each <= 1 for each in got)
    assert logged == {"medal_overall/unscored": 0, "medal_overall/thoughts_left_out": 0}
    unsafe = JudgeReward("length", dimension="unsafe")
    worse, better = unsafe(
        ["こんにちは", "こんにちは"], ["はい", "word " * 30], lang=["ja", "en"]
    )
    assert worse is not None and better is not None and worse < better
    assert reward([], []) == []


@pytest.mark.integrations("trl")
def test_a_grpo_step_moves_the_weights(tiny_llama: Path, tmp_path: Path) -> None:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    model = AutoModelForCausalLM.from_pretrained(tiny_llama)
    before = {
        name: weight.detach().clone() for name, weight in model.named_parameters()
    }
    rows = [
        {"prompt": [{"role": "user", "content": f"Hi {n}"}], "lang": "en"}
        for n in range(8)
    ]
    reward = JudgeReward("length")
    settings = GRPOConfig(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=24,
        max_steps=2,
        learning_rate=1e-2,
        logging_steps=1,
        report_to="none",
        use_cpu=True,
        bf16=False,
        save_strategy="no",
    )
    trainer = GRPOTrainer(
        model,
        reward,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(tiny_llama),
    )
    trainer.train()
    steps = [
        row for row in trainer.state.log_history if "rewards/medal_overall/mean" in row
    ]
    assert len(steps) == 2 and all(
        0 <= row["rewards/medal_overall/mean"] <= 1 for row in steps
    )
    assert "medal_overall/unscored" in steps[0]
    moved = [
        n for n, w in model.named_parameters() if not torch.equal(w.detach(), before[n])
    ]
    assert moved
