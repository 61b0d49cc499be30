"""A body that reads packed texts gives the vectors of transformers, and steps aside where not."""

from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges import Dialogue, Judge, Turn
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.encoder.packed_body import PackedBody, packed

from ..conftest import SIZE

TEXTS = [[2, 9, 3], [2, 4, 5, 3], [2, 10, 11, 3], [2, *[8, 12, 15] * 10, 3]]


def body_of(kind: str) -> Any:
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel, XLMRobertaConfig
    from transformers import XLMRobertaModel as XLMRoberta

    torch.manual_seed(0)
    places = {"pad_token_id": 1, "max_position_embeddings": 40}
    made = {
        "bert": lambda: BertModel(BertConfig(**SIZE)),
        "roberta": lambda: RobertaModel(RobertaConfig(**SIZE, **places)),
        "xlm-roberta": lambda: XLMRoberta(XLMRobertaConfig(**SIZE, **places)),
    }[kind]()
    for name, parameter in made.named_parameters():  # fresh ones are zeros and ones
        if "bias" in name or "LayerNorm" in name:
            torch.nn.init.normal_(parameter, 1.0 if "weight" in name else 0.0, 0.2)
    return made.eval()


@torch.inference_mode()
def own_sums(body: Any, texts: list[list[int]]) -> torch.Tensor:
    found = [body(input_ids=torch.tensor([text])).last_hidden_state for text in texts]
    return torch.stack([one.float().sum((0, 1)) for one in found])


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_it_gives_the_vectors_of_transformers(kind: str) -> None:
    body = body_of(kind)
    with torch.inference_mode():
        reader = packed(body, None)
        assert reader is not None
        assert reader.sums(TEXTS) == pytest.approx(own_sums(body, TEXTS), abs=1e-4)
        assert reader.sums(TEXTS[1:2]) == pytest.approx(own_sums(body, TEXTS[1:2]), abs=1e-4)
        assert packed(body, reader) is reader


def test_weights_that_changed_are_laid_out_again() -> None:
    body = body_of("bert")
    with torch.inference_mode():
        before = packed(body, None)
    optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
    body(input_ids=torch.tensor([TEXTS[0]])).last_hidden_state.square().sum().backward()
    optimizer.step()
    with torch.inference_mode():
        after = packed(body, before)
        assert after is not None
        assert after is not before
        assert after.sums(TEXTS) == pytest.approx(own_sums(body, TEXTS), rel=1e-4, abs=1e-3)


def test_what_is_trained_or_of_another_kind_reads_by_itself() -> None:
    body = body_of("bert")
    assert packed(body, None) is None  # gradients
    with torch.inference_mode():
        with torch.autocast("cpu", torch.bfloat16):
            assert packed(body, None) is None
        assert packed(body.train(), None) is None
        body.eval().config.hidden_act = "relu"
        assert packed(body, None) is None
        body.config.hidden_act, body.config.model_type = "gelu", "modernbert"
        assert packed(body, None) is None


def test_a_layer_that_reads_otherwise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    body = body_of("bert")
    body.encoder.layer[0].register_forward_hook(lambda layer, given, output: output * 2)
    with torch.inference_mode():
        made = packed(body, None)
    assert made is not None and not made.agrees
    assert "packed, they differ" in caplog.text


def talk(count: int) -> list[Dialogue]:
    said = ["Hello!", "I like trains and bread.", "What a long winter. " * 12, "", "Why?"]
    return [
        Dialogue(
            str(n),
            tuple(
                Turn("assistant" if k % 2 else "user", said[(n + k) % 5] + " again" * (k % 4))
                for k in range(2 + n % 7)
            ),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(("dtype", "allowed"), [("fp32", 1e-5), ("bf16", 0.01)])
def test_scores_do_not_change_with_batch_order_window_or_threads(
    dtype: str, allowed: float
) -> None:
    judge = Judge.from_pretrained("boxed", device="cpu", dtype=dtype)
    assert isinstance(judge, EncoderJudge)
    given = [*golden_dialogues(), *talk(24)]

    def units(**options: Any) -> list[float]:
        order = -1 if options.pop("turned", False) else 1
        found = [j.scores["overall"] for j in judge.score(given[::order], **options)]
        return [(s - 1) / 4 for s in found[::order] if s is not None]

    one, threads = units(), torch.get_num_threads()
    assert judge.packed_body is not None or not torch.backends.mkldnn.is_available()
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert units() == pytest.approx(one, abs=allowed)
    finally:
        torch.set_num_threads(threads)
    assert units(token_budget=60) == pytest.approx(one, abs=allowed)
    judge.window = 7
    assert units(turned=True) == pytest.approx(one, abs=allowed)


def test_the_body_reads_by_itself_where_torch_has_no_onednn(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge.from_pretrained("boxed", device="cpu")
    assert isinstance(judge, EncoderJudge)
    one = [j.scores["overall"] for j in judge.score(talk(9))]
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    other = [j.scores["overall"] for j in judge.score(talk(9))]
    assert judge.packed_body is None
    assert other == pytest.approx(one, abs=4e-5)


@pytest.mark.parametrize("name", ["sums", "_lay_out"])
def test_operators_that_torch_renamed_are_one_warning(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def renamed(*given: object) -> None:
        raise AttributeError("no _linear_pointwise")

    judge = Judge.from_pretrained("boxed")
    one = [j.scores["overall"] for j in judge.score(talk(9))]
    assert isinstance(judge, EncoderJudge)
    judge.packed_body = None
    monkeypatch.setattr(PackedBody, name, renamed)
    for _ in range(2):  # not tried again
        assert [j.scores["overall"] for j in judge.score(talk(9))] == pytest.approx(one, abs=4e-5)
    assert caplog.text.count("no _linear_pointwise") == 1
