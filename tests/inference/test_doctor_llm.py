"""medal doctor --llm: right models pass, and each planted fault is seen where it belongs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import ConfigError
from medal_judges.inference.doctor_llm import Check, check_llm
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.local.encoder_decoder import EncoderDecoderModel
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.local.paths import Paths
from medal_judges.models.llm.local.probes import Finding

pytest.importorskip("llguidance")
_SPEC = importlib.util.spec_from_file_location(
    "architectures", Path(__file__).parents[1] / "models" / "llm" / "architectures.py"
)
assert _SPEC is not None and _SPEC.loader is not None
architectures: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(architectures)

QUICK = ("granite", "mpt", "gemma3", "lfm2", "blenderbot")
LINES = (
    *("tree against plain likelihood", "answers against the forward pass"),
    *(
        "prompts of one length together",
        "beginnings kept from earlier prompts",
        "padding on the left",
        "padding on the right",
    ),
    *("chat: alone against in a batch", "likelihood: alone against in a batch"),
    *("tokens at the boundary", "system role", "thinking", "grammar", "context"),
    *("sliding window", "bf16 against fp32"),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path))


def tiny(name: str) -> LocalModel:
    return LocalModel(architectures.tiny_model(name), architectures.tiny_tokenizer(), name=name)


def table(llm: Any) -> dict[str, Check]:
    return {check.name: check for check in check_llm(llm)}


@pytest.mark.parametrize(
    "name",
    [
        n if n in QUICK else pytest.param(n, marks=pytest.mark.slow)
        for n in (*architectures.ARCHITECTURES, *architectures.ENCODER_DECODERS)
    ],
)
def test_no_line_fails_for_any_architecture(name: str) -> None:
    if name in architectures.ENCODER_DECODERS:
        model = architectures.tiny_encoder_decoder(name)
        checks = table(EncoderDecoderModel(model, architectures.ending_tokenizer(), name=name))
    else:
        checks = table(tiny(name))
        assert tuple(checks) == LINES
    assert not [check for check in checks.values() if check.verdict == "fail"]
    assert all(check.figure for check in checks.values())


def medal(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", *words], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_the_command_prints_a_line_a_check_and_fails_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    architectures.tiny_model("llama").save_pretrained(tmp_path / "llama")
    architectures.tiny_tokenizer().save_pretrained(tmp_path / "llama")
    code, said = medal("--llm", str(tmp_path / "llama"), "--device", "cpu", "llm.context=600")
    assert code == 0
    # What transformers says while it loads may stand before the first line.
    lines = {name: next(x for x in said.splitlines() if name in x) for name in LINES}
    assert all("pass  " in line or "warn  " in line for line in lines.values())
    assert "600 tokens" in lines["context"] and "14 pass, 1 warn" in said
    monkeypatch.setattr(ChatTemplate, "sequence", _with_two_beginnings(ChatTemplate.sequence))
    code, said = medal("--llm", str(tmp_path / "llama"), "device=cpu", "llm.context=601")
    assert code == 1 and "two beginning-of-sequence tokens" in said


def test_options_that_a_model_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="--write is of a judge"):
        medal("--llm", "openai:tiny", "--write")
    with pytest.raises(ConfigError, match=r"llm\.device is a setting of the backend transformers"):
        medal("--llm", "openai:tiny", "--device", "cpu")


def _with_two_beginnings(right: Callable[..., Any]) -> Callable[..., Any]:
    def sequence(self: ChatTemplate, continuation: Any) -> Any:
        whole = right(self, continuation)
        bos = self.tokenizer.bos_token_id
        return type(whole)((bos, bos, *whole.ids), whole.start + 2)

    return sequence


def test_an_answer_that_depends_on_its_batch_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding where a recurrent state takes it in: what was done before it was tried."""
    llm = tiny("rwkv")
    fine = Finding(0.0, 0.002)
    wrong = Paths({**llm.paths.findings, "left": fine, "together": fine})
    monkeypatch.setattr(LocalModel, "paths", wrong)
    found = table(llm)["chat: alone against in a batch"]
    assert found.verdict == "fail" and float(found.figure.split()[0]) > 0.1


def test_a_tree_that_does_not_fit_fails_where_it_is_taken_all_the_same() -> None:
    model = architectures.tiny_model("mpt")
    llm = LocalModel(model, architectures.tiny_tokenizer(), name="mpt", shared=True)
    assert table(llm)["likelihood: alone against in a batch"].verdict == "fail"


def test_a_stray_piece_at_the_boundary_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
        "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    )
    model = architectures.tiny_model("llama")
    right = LocalModel(model, architectures.tiny_tokenizer(template), name="llama2")
    assert table(right)["tokens at the boundary"].verdict == "pass"
    original = ChatTemplate.sequence

    def sequence(self: ChatTemplate, continuation: Any) -> Any:
        whole = original(self, continuation)
        return type(whole)(whole.ids, whole.start + 1)  # the byte of the space goes before

    monkeypatch.setattr(ChatTemplate, "sequence", sequence)
    found = table(right)["tokens at the boundary"]
    assert found.verdict == "fail" and "word-start piece" in found.note


def test_a_server_is_checked_as_far_as_it_shows_itself(serve: Callable[..., Any]) -> None:
    pytest.importorskip("openai")
    server = serve(refuse=["echo"])
    setting = {"model": "openai:tiny", "base_url": server.url, "cache": True}
    checks = table(setting)
    assert checks["grammar"].verdict == "pass" and "valid" in checks["grammar"].figure
    assert checks["system role"].verdict == checks["tokens at the boundary"].verdict == "skip"
    assert checks["likelihood: alone against in a batch"].verdict in ("skip", "pass")

    def chats() -> int:
        # How many refused likelihoods were under way when the first one ended the rest is chance.
        return sum(one["path"].endswith("/chat/completions") for one in server.told("requests"))

    asked = chats()
    table(setting)
    assert chats() == 2 * asked > 0, "the cache of answers is passed by"


def test_kept_answers_are_passed_by(tmp_path: Path) -> None:
    cached = CachedModel(tiny("llama"), tmp_path / "answers")
    table(cached)
    assert len(cached.store) == 0
