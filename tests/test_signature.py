"""Signatures: a text that comes back, and tables that refuse to mix."""

import pytest

from medal_judges.errors import MedalError
from medal_judges.records.signature import Signature, content_hash, require_comparable

FULL = Signature(
    judge="embedded:minilm",
    revision="0123abcd",
    base="sentence-transformers/all-MiniLM-L6-v2",
    prompt="ab12",
    rubric="cd34",
    dtype="float32",
    truncation="turns:oldest",
    data="fed@4f27",
    dimension="overall",
    seed=0,
    version="0.1.0",
)


@pytest.mark.parametrize("signature", [FULL, Signature("x"), Signature("x", seed=0, data="")])
def test_a_signature_comes_back_from_its_text(signature: Signature) -> None:
    assert Signature.parse(str(signature)) == signature


def test_seed_zero_is_a_seed_and_none_is_left_out() -> None:
    assert str(Signature("x", seed=0)) == "judge:x|seed:0"
    assert str(Signature("x")) == "judge:x"


def test_text_that_is_no_signature_is_the_judge_s_name() -> None:
    assert Signature.parse("my judge") == Signature("my judge")


@pytest.mark.parametrize("name", ["a|seed:5", "a\nb"])
def test_a_value_that_would_forge_a_pair_is_refused(name: str) -> None:
    with pytest.raises(MedalError, match="judge"):
        Signature(name)


def test_tables_refuse_to_mix_data_or_dimension() -> None:
    one = Signature("a", data="fed", dimension="overall")
    require_comparable([])
    require_comparable([one, Signature("b", data="fed", dimension="overall", seed=1)])
    with pytest.raises(MedalError, match="data differs: dstc9, fed"):
        require_comparable([one, Signature("a", data="dstc9", dimension="overall")])
    with pytest.raises(MedalError, match="dimension differs"):
        require_comparable([one, Signature("a", data="fed", dimension="unsafe")])
    with pytest.raises(MedalError, match="data differs: None, fed"):
        require_comparable([one, Signature("a", dimension="overall")])


def test_the_hash_goes_by_content_alone() -> None:
    assert content_hash({"a": 1, "b": "é"}) == content_hash({"b": "é", "a": 1})
    assert content_hash({"a": 1}) != content_hash({"a": 2})
    # sha256 of the three letters, from FIPS 180-4's example
    assert content_hash(b"abc") == "ba7816bf8f01"
