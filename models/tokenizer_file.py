"""A tokenizer straight from its tokenizer.json, for scoring.

transformers' classes around such a file take half a second to import, and some build their rules
anew from the vocabulary. Here the file is read as it stands, and only where that gives the same: a
judge's own tokenizer, which was written with the rules that training used, and BERT's, whose rules
are few enough to be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from medal_judges.storage.files import atomic_write

if TYPE_CHECKING:
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerBase

FILE, SETTINGS = "tokenizer.json", "tokenizer_config.json"
_BERT = ("BertTokenizer", "BertTokenizerFast")
_BERT_TOKENS = {f"{name}_token" for name in ("unk", "sep", "pad", "cls", "mask")}
# Settings with which transformers changes what the file says.
_CHANGES = ("split_special_tokens", "add_bos_token", "add_eos_token", "auto_map")


class TokenizerFile:
    """What an encoder judge asks of a tokenizer, under the names of transformers.

    ``special_tokens_map``: the tokens with a part to play (``pad_token``, ...), all in the file.
    """

    is_fast = True

    def __init__(
        self, backend: Tokenizer, special: Mapping[str, str], settings: Mapping[str, object]
    ) -> None:
        self.backend_tokenizer, self.settings = backend, dict(settings)
        self.special_tokens_map = dict(special)
        backend.no_truncation()
        backend.no_padding()
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=False)
        numbers = {name: backend.token_to_id(token) for name, token in special.items()}
        self.bos_token_id, self.eos_token_id = numbers.get("bos_token"), numbers.get("eos_token")
        self.cls_token_id, self.sep_token_id = numbers.get("cls_token"), numbers.get("sep_token")
        self.pad_token_id, self.unk_token_id = numbers.get("pad_token"), numbers.get("unk_token")
        self.sep_token = special.get("sep_token")

    @property
    def all_special_tokens(self) -> list[str]:
        return list(self.special_tokens_map.values())

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        return self.backend_tokenizer.get_added_tokens_decoder()

    def get_vocab(self) -> dict[str, int]:
        """Number of each token."""
        return self.backend_tokenizer.get_vocab()

    def __call__(
        self, text: str | Sequence[str], *, add_special_tokens: bool = True, verbose: bool = True
    ) -> dict[str, Any]:
        """``input_ids`` of a text, or of each of several; never cut, never filled up."""
        texts = [text] if isinstance(text, str) else list(text)
        found = self.backend_tokenizer.encode_batch_fast(
            texts, add_special_tokens=add_special_tokens
        )
        ids = [each.ids for each in found]
        return {"input_ids": ids[0] if isinstance(text, str) else ids}

    def save_pretrained(self, folder: Path) -> None:
        """Write both files again."""
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / FILE, self.backend_tokenizer.to_str(pretty=True))
        atomic_write(folder / SETTINGS, json.dumps(self.settings, indent=2) + "\n")


AnyTokenizer: TypeAlias = Union["PreTrainedTokenizerBase", TokenizerFile]


def tokenizer_in(folder: Path, *, own: bool) -> TokenizerFile | None:
    """The tokenizer whose files lie in ``folder``; None where transformers would read them
    otherwise than they stand. ``own``: they were saved with a judge, as it used them."""
    from tokenizers import Tokenizer

    if not (folder / FILE).is_file() or (folder / "added_tokens.json").exists():
        return None
    settings = _read(folder / SETTINGS)
    special = _named_tokens(settings)
    if special is None or any(settings.get(name) for name in _CHANGES):
        return None
    if not set((_named_tokens(_read(folder / "special_tokens_map.json")) or {}).items()) <= set(
        special.items()
    ):
        return None
    text = (folder / FILE).read_text(encoding="utf-8")
    if not own and not _is_plain_bert(json.loads(text), settings, special):
        return None
    backend = Tokenizer.from_str(text)
    added = backend.get_added_tokens_decoder().values()
    if not set(special.values()) <= {token.content for token in added if token.special}:
        return None
    return TokenizerFile(backend, special, settings)


def _read(path: Path) -> dict[str, object]:
    """A JSON object; empty where there is no such file."""
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _named_tokens(settings: Mapping[str, object]) -> dict[str, str] | None:
    """The special tokens that ``settings`` name; None where more than a name is said of one."""
    if settings.get("extra_special_tokens") or settings.get("additional_special_tokens"):
        return None
    named = {k: v for k, v in settings.items() if k.endswith("_token") and v is not None}
    texts = {key: value for key, value in named.items() if isinstance(value, str)}
    return texts if len(texts) == len(named) else None


def _is_plain_bert(
    written: Mapping[str, object], settings: Mapping[str, object], special: Mapping[str, str]
) -> bool:
    """Whether the rules in tokenizer.json are those that ``BertTokenizer`` builds of ``settings``
    and the vocabulary."""
    if settings.get("tokenizer_class") not in _BERT or special.keys() != _BERT_TOKENS:
        return False
    model, processor, added = (written.get(k) for k in ("model", "post_processor", "added_tokens"))
    if not (isinstance(model, dict) and isinstance(processor, dict) and isinstance(added, list)):
        return False
    expected = {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings.get("tokenize_chinese_chars", True),
            "strip_accents": settings.get("strip_accents"),
            "lowercase": settings.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": special["unk_token"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
        "post_processor": [
            {"SpecialToken": {"id": special["cls_token"], "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": special["sep_token"], "type_id": 0}},
        ],
        "added_tokens": sorted(special.values()),
    }
    found = {
        "normalizer": written.get("normalizer"),
        "pre_tokenizer": written.get("pre_tokenizer"),
        "model": {key: value for key, value in model.items() if key != "vocab"},
        "post_processor": processor.get("single"),
        "added_tokens": sorted(str(each.get("content")) for each in added),
    }
    return found == expected
