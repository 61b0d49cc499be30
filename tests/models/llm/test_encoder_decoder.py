"""Encoder-decoders behind the two calls, held against transformers' own loss."""

from pathlib import Path

import numpy as np
import pytest
import torch

from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.encoder_decoder import EncoderDecoderModel
from medal_judges.models.llm.protocol import Continuation, Message

from . import architectures

TALK = (
    Message("user", "Hi! Did you have a nice weekend?"),
    Message("assistant", "I read a book about trains."),
)


def saved(name: str, folder: Path) -> Path:
    architectures.tiny_encoder_decoder(name).save_pretrained(folder / name)
    architectures.ending_tokenizer().save_pretrained(folder / name)
    return folder / name


@pytest.mark.parametrize("name", architectures.ENCODER_DECODERS)
def test_likelihoods_are_what_transformers_own_loss_says(
    name: str, tmp_path: Path
) -> None:
    llm = load_llm({"model": str(saved(name, tmp_path)), "device": "cpu"})
    # and not its decoder alone, as a causal model
    assert isinstance(llm, EncoderDecoderModel)
    texts = ("That's wrong.", "No.")
    group = [
        Continuation(TALK[:k], text, role="user") for k in (1, 2) for text in texts
    ]
    (given,) = llm.loglikelihood([group])
    for continuation, likelihood in zip(group, given, strict=True):
        read = "  ".join(m.content for m in continuation.messages)
        source = llm.tokenizer(read, return_tensors="pt").input_ids
        labels = llm.tokenizer(continuation.text, return_tensors="pt").input_ids
        # BART's own shift of the labels differs from the others'
        begin = torch.tensor([[1]])
        shifted = torch.cat([begin, labels[:, :-1]], dim=1)
        with torch.no_grad():
            loss = llm.model(
                input_ids=source, decoder_input_ids=shifted, labels=labels
            ).loss
        assert likelihood.mean == pytest.approx(-float(loss), abs=1e-4)
        assert len(likelihood.logprobs) == labels.shape[1]
    # it reads the dialogue
    assert np.std([likelihood.mean for likelihood in given]) > 0.01
    (open_end,) = llm.loglikelihood(
        [[Continuation(TALK, "No.", score_eos=False, prefill="Hm,")]]
    )[0]
    (whole,) = llm.loglikelihood([[Continuation(TALK, "Hm, No.")]])[0]
    np.testing.assert_allclose(open_end.logprobs, whole.logprobs[3:-1], atol=1e-4)
