"""BERT and its like read straight from their files: the numbers of transformers, or not at all."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges import Judge
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.base.network_size import shapes_only
from medal_judges.models.embedded import resolve
from medal_judges.models.encoder import body as loading
from medal_judges.models.encoder.bert_body import BertBody, bert_in, bert_settings
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.encoder.net import EncoderNet
from medal_judges.models.tokenizer_file import TokenizerFile, tokenizer_in
from medal_judges.records.dimension import load_rubric

from .test_packed_body import TEXTS
from .test_packed_body import body_of as made_by_transformers

ODD = [
    "",
    "Hello, [SEP] wörld! don't",
    "日本語のテキスト。",
    "Ünïcödé ﬁne\u00a0x\u200b",
    "नमस्ते 😀 a" * 40,
]
SMALL = ["bert", "roberta", "xlm-roberta"]


def written(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text()))


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, TEXTS))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in TEXTS])
    lengths = torch.tensor([len(text) for text in TEXTS])
    return ids, (torch.arange(longest) < lengths[:, None]).long()


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("headed", [False, True])
@torch.inference_mode()
def test_its_vectors_are_those_of_transformers(kind: str, headed: bool, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoModelForMaskedLM

    own = made_by_transformers(kind)
    if headed:  # names with a prefix, and weights that are nobody's business
        with_head = AutoModelForMaskedLM.from_config(own.config)
        getattr(with_head, with_head.base_model_prefix).load_state_dict(
            own.state_dict(), strict=False
        )
        own = with_head
    own.save_pretrained(tmp_path)
    reference = AutoModel.from_pretrained(tmp_path).eval()
    settings = bert_settings(written(tmp_path))
    assert settings is not None
    body = bert_in(tmp_path, settings)
    assert body is not None
    ids, mask = padded()
    ids = ids + (1 - mask) * settings.pad_token_id
    found, there = body(ids, mask).last_hidden_state, mask.bool()
    expected = reference(input_ids=ids, attention_mask=mask).last_hidden_state
    assert found[there] == pytest.approx(expected[there], abs=1e-6)
    one = torch.tensor(TEXTS[3:])
    assert body(one).last_hidden_state == pytest.approx(
        reference(input_ids=one).last_hidden_state, abs=1e-6
    )


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "modernbert"},
        {"hidden_act": "gelu_new"},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"auto_map": {"AutoModel": "x.Y"}},
        {"vocab_size": None},
        {"hidden_size": 33},
        {"num_hidden_layers": -1},
        {"intermediate_size": 64.0},
        {"pad_token_id": 10**9},
        {"layer_norm_eps": None},
    ],
)
def test_any_other_body_is_left_to_transformers(change: dict[str, Any]) -> None:
    settings = written(Path(resolve("embedded:minilm")))
    assert bert_settings(settings) is not None
    assert bert_settings(settings | change) is None
    left = {key: value for key, value in settings.items() if key not in change}
    assert bert_settings(left) is None or set(change) & {
        *("position_embedding_type", "is_decoder", "auto_map")
    }


def test_weights_of_another_body_are_left_to_transformers(tmp_path: Path, tiny_bert: Path) -> None:
    settings = bert_settings(written(tiny_bert))
    assert settings is not None
    assert bert_in(tiny_bert, settings) is not None
    assert bert_in(tmp_path, settings) is None
    larger = bert_settings(written(tiny_bert) | {"num_hidden_layers": 3})
    assert larger is not None
    assert bert_in(tiny_bert, larger) is None


def test_the_tokenizer_in_the_package_reads_as_transformers_reads_it() -> None:
    from transformers import AutoTokenizer

    folder = Path(resolve("embedded:minilm"))
    reference, found = AutoTokenizer.from_pretrained(folder), tokenizer_in(folder, own=False)
    assert found is not None
    assert found(ODD)["input_ids"] == reference(ODD)["input_ids"]
    assert found(ODD[1])["input_ids"] == reference(ODD[1])["input_ids"]
    assert set(found.all_special_tokens) == set(reference.all_special_tokens)
    for name in (
        "vocab_size",
        "sep_token",
        *(f"{n}_token_id" for n in ("pad", "sep", "cls", "bos")),
    ):
        assert getattr(found, name) == getattr(reference, name)


@pytest.mark.parametrize("change", ["settings", "normalizer", "token", "class", "added", "file"])
def test_a_tokenizer_whose_rules_would_be_built_anew_is_left_to_transformers(
    change: str, tmp_path: Path
) -> None:
    folder = Path(resolve("embedded:minilm"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    if change == "settings":
        settings["do_lower_case"] = False
    elif change == "normalizer":
        tokenizer["normalizer"]["handle_chinese_chars"] = False
    elif change == "token":
        settings["extra_special_tokens"] = ["<ent>"]
    elif change == "class":
        settings["tokenizer_class"] = "RobertaTokenizer"
    elif change == "added":
        tokenizer["added_tokens"].pop()
    if change != "file":
        (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert tokenizer_in(tmp_path, own=False) is None


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta"])
def test_a_saved_tokenizer_is_read_as_it_was_saved(kind: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, RobertaTokenizer, XLMRobertaTokenizer

    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    if kind == "roberta":
        words = {word: n for n, word in enumerate([*marks, "a", "b", "Ġ", "Ġa"])}
        made: Any = RobertaTokenizer(vocab=words, merges=[("Ġ", "a")])
    else:
        pieces = [*((mark, 0.0) for mark in marks), ("▁", -1.0), ("▁a", -2.0), ("b", -3.0)]
        made = XLMRobertaTokenizer(vocab=pieces)
    made.save_pretrained(tmp_path)
    found, reference = tokenizer_in(tmp_path, own=True), AutoTokenizer.from_pretrained(tmp_path)
    assert found is not None
    texts = ["a b <mask> ab", "", " a  a<s>", *ODD]
    assert found(texts)["input_ids"] == reference(texts)["input_ids"]
    found.save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again(texts)["input_ids"] == reference(texts)["input_ids"]


def scores(judge: Judge) -> list[float | None]:
    judged = judge.score(golden_dialogues(), unknown_language="allow")
    return [one.scores["overall"] for one in judged]


@pytest.mark.parametrize("which", ["boxed", "hierarchical", "flat"])
def test_a_judge_scores_the_same_without_transformers(
    which: str, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path | str = "boxed"
    if which != "boxed":
        torch.manual_seed(0)
        config = EncoderConfig(base=str(tiny_bert), shape=which, max_tokens=64)
        EncoderJudge.create(config, load_rubric("overall")).save_pretrained(tmp_path / "judge")
        folder = tmp_path / "judge"
    plain = Judge.from_pretrained(folder, device="cpu")
    assert isinstance(plain, EncoderJudge)
    assert isinstance(plain.net.body, BertBody)
    assert isinstance(plain.tokenizer, TokenizerFile)
    plain.save_pretrained(tmp_path / "again")
    monkeypatch.setattr(loading, "bert_settings", lambda written: None)
    monkeypatch.setattr(loading, "tokenizer_in", lambda folder, own: None)
    one = scores(plain)
    for source in (folder, tmp_path / "again"):
        full = Judge.from_pretrained(source, device="cpu")
        assert isinstance(full, EncoderJudge)
        assert not isinstance(full.net.body, BertBody)
        assert scores(full) == pytest.approx(one, abs=4e-6)


def test_the_judge_in_the_package_scores_without_transformers() -> None:
    code = """
import sys
from medal_judges import Judge
from medal_judges.models.base.golden import golden_dialogues
list(Judge.from_pretrained("boxed", device="cpu").score(golden_dialogues()[:2]))
heavy = "transformers torch._dynamo sympy scipy sklearn pandas pyarrow datasets".split()
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("rubric", ["overall", "medal"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"net": "linear", "reply": {"positive": ["good"], "negative": ["bad"]}},
        {"net": "sequence", "shape": "flat", "pooling": "cls", "features": []},
    ],
)
def test_networks_of_shapes_alone_have_the_shapes(
    settings: dict[str, Any], rubric: str, tiny_bert: Path
) -> None:
    known = bert_settings(written(tiny_bert))
    assert known is not None

    def built() -> dict[str, torch.Size]:
        config = EncoderConfig(**settings)
        net = EncoderNet(BertBody(known), known.hidden_size, config, load_rubric(rubric))
        return {name: weight.shape for name, weight in net.state_dict().items()}

    with shapes_only():
        shapes = built()
        assert torch.empty(1).device.type == "meta"
    assert shapes == built()
