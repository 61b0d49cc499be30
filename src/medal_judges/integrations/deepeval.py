"""DeepEval: a judge as a conversational metric. It runs here: nothing is sent anywhere by it."""

from __future__ import annotations

import asyncio

from deepeval.errors import MissingTestCaseParamsError
from deepeval.metrics import BaseConversationalMetric
from deepeval.test_case import ConversationalTestCase

from medal_judges.eval.traffic.traffic import HEADLINE
from medal_judges.integrations.chats import JudgeSource, load_judge, score_chats
from medal_judges.models.base.judge import Judge
from medal_judges.shipped import BOXED


class JudgeMetric(BaseConversationalMetric):
    """``score`` and ``threshold`` are on the dimension's own scale (``overall`` unless told
    otherwise): of one that is good when high it passes from the threshold up, of an issue from the
    threshold down.

    ``score_breakdown`` has the judge's scores in all dimensions, ``reason`` says them. For a
    conversation that the judge does not score MissingTestCaseParamsError is raised, which DeepEval
    takes for an error, or for a skip where ``skip_on_missing_params`` is set.
    """

    def __init__(
        self,
        judge: JudgeSource = BOXED,
        *,
        threshold: float,
        dimension: str = HEADLINE,
        max_cost: float | None = None,
    ) -> None:
        self.judge: Judge = load_judge(judge, max_cost=max_cost)
        self.most = self.judge.dimension(dimension).good == "low"
        # Under these names: DeepEval copies a metric by the parameters of its class.
        self.dimension, self.threshold, self.max_cost = dimension, threshold, None
        self.evaluation_model = str(self.judge.signature())
        self.include_reason = True

    @property
    def __name__(self) -> str:
        return f"medal_judges {self.dimension}"

    def measure(self, test_case: ConversationalTestCase, *args: object, **options: object) -> float:
        """Judge the conversation; returns ``score``."""
        messages = [{"role": each.role, "content": each.content} for each in test_case.turns]
        lang = (test_case.metadata or {}).get("lang")
        chat = {"messages": messages} | ({"lang": lang} if lang else {})
        (judgement,) = score_chats([chat], self.judge, place="test_cases").judgements
        scores, name = judgement.scores, self.dimension
        self.score = scores[name]
        self.score_breakdown = dict(scores)
        if self.score is None:
            raise MissingTestCaseParamsError(judgement.failure or f"no score for {name}")
        told = ", ".join(f"{k} {v:.2f}" for k, v in scores.items() if v is not None)
        side = "at most" if self.most else "at least"
        wanted = f"{name} {self.score:.2f} (wanted {side} {self.threshold:g})"
        said = f"; {judgement.explanation}" if judgement.explanation else ""
        self.reason = f"{wanted}; {told}{said}"
        self.is_successful()
        return self.score

    def is_successful(self) -> bool | None:
        """Whether the score is on the right side; None where there is none."""
        good: bool | None = None
        if self.error is not None:
            good = False
        elif self.score is not None:
            good = self.score <= self.threshold if self.most else self.score >= self.threshold
        self.success = good
        return good

    async def a_measure(
        self, test_case: ConversationalTestCase, *args: object, **options: object
    ) -> float:
        """``measure`` in a thread: DeepEval's other metrics go on meanwhile."""
        return await asyncio.to_thread(self.measure, test_case, *args, **options)
