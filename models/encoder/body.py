"""The pretrained encoder under an encoder judge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.embedded import resolve
from medal_judges.models.encoder.bert_body import BertBody, bert_in, bert_settings, empty_bert
from medal_judges.models.model_files import files_hash, weights_folder
from medal_judges.models.tokenizer_file import AnyTokenizer, tokenizer_in

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from medal_judges.models.encoder.config import EncoderConfig

Body: TypeAlias = Union["PreTrainedModel", BertBody]


def load_body(
    base: str, revision: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """(body, tokenizer) of an encoder by hub id, path or ``embedded:minilm``.

    Attention dropout is set to 0: with it, CPU attention loses its fast kernel (4 times slower).
    """
    from transformers import AutoConfig, AutoModel

    source = resolve(base)
    try:
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)
        tokenizer = _tokenizer(source, revision)
    except (OSError, ValueError) as error:
        raise JudgeLoadError(
            f"cannot load the encoder {base}: {str(error).splitlines()[0]}",
            hint="give a hub id (with a network, or cached), a folder, or embedded:minilm",
        ) from error
    for name in ("attention_probs_dropout_prob", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, 0.0)
    with _without_bar():  # it is read in less than a second
        body = AutoModel.from_pretrained(
            source, revision=revision, config=config, trust_remote_code=False
        )
    return without_pooler(body), tokenizer


def body_to_score(base: str, revision: str | None) -> tuple[Body, AnyTokenizer]:
    """``load_body`` for scoring on a CPU: without transformers where the files in a folder tell all
    there is to know. The numbers are the same."""
    folder = Path(resolve(base))
    config = folder / "config.json"
    if revision is None and config.is_file():
        settings = bert_settings(_object(config))
        body = None if settings is None else bert_in(folder, settings)
        if body is not None:
            tokenizer = tokenizer_in(folder, own=False)
            return body, tokenizer or _tokenizer(str(folder), None)
    return load_body(base, revision)


def saved_tokenizer(folder: Path) -> AnyTokenizer:
    """The tokenizer that was saved with a judge."""
    return tokenizer_in(folder, own=True) or _tokenizer(str(folder), None)


def body_of(settings: Mapping[str, Any], *, plain: bool) -> Body:
    """A body whose numbers are still to come, as ``settings`` (a config.json) describe it.
    ``plain``: for scoring on a CPU, so without transformers where that is not needed."""
    known = bert_settings(settings) if plain else None
    if known is not None:
        return empty_bert(known)
    from transformers import AutoConfig, AutoModel

    made: PreTrainedModel = AutoModel.from_config(  # type: ignore[no-untyped-call]
        AutoConfig.for_model(**settings), trust_remote_code=False
    )
    return without_pooler(made)


def settings_of(body: Body) -> dict[str, Any]:
    """What ``body_of`` makes such a body of."""
    if isinstance(body, BertBody):
        return dict(body.config.written)
    settings: dict[str, Any] = json.loads(body.config.to_json_string(use_diff=False))
    for key in ("_name_or_path", "transformers_version"):  # of this machine, not of the judge
        settings.pop(key, None)
    return settings


def _object(path: Path) -> dict[str, object]:
    found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _tokenizer(source: str, revision: str | None) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        source, revision=revision, trust_remote_code=False
    )
    return made


@contextmanager
def _without_bar() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def check_window(config: EncoderConfig, body: PretrainedConfig) -> None:
    """Raise ConfigError when ``max_tokens`` is above what the body's positions allow."""
    positions = getattr(body, "max_position_embeddings", None)
    if positions is not None and "roberta" in body.model_type:
        positions -= body.pad_token_id + 1  # their positions start after the padding's
    if positions is not None and config.max_tokens > positions:
        raise ConfigError(
            f"max_tokens {config.max_tokens} is above the {positions} of {config.base}",
            hint=f"set model.max_tokens to {positions} or less",
        )


def without_pooler(body: PreTrainedModel) -> PreTrainedModel:
    """The body without BERT's pooler: unused here, and unused weights stop distributed training."""
    if getattr(body, "pooler", None) is not None:
        setattr(body, "pooler", None)  # noqa: B010  (mypy: a module's attributes are modules)
    return body


def body_hash(base: str, revision: str | None) -> str:
    """A hash of the files of ``base``: weights, tokenizer and settings."""
    return files_hash(weights_folder(resolve(base), revision))


def require_body(base: str, revision: str | None, expected: str, folder: Path) -> None:
    """Raise JudgeLoadError where ``base`` is not the one that the judge in ``folder`` learnt on."""
    if (found := body_hash(base, revision)) != expected:
        raise JudgeLoadError(
            f"{folder}: the judge was trained on {base} with other weights than are here "
            f"(hash {expected} then, {found} now)",
            hint="install the version of the package, or name the revision, it was trained on",
        )
