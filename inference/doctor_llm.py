"""``medal doctor --llm``: whether a language model computes here what its weights say.

Every line is a figure and a verdict. ``pass``: right. ``warn``: right, but slower, shorter or
different from what one may expect; the note says how. ``fail``: its numbers would be wrong.
``skip``: this backend does not show it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.encoder_decoder import EncoderDecoderModel
from medal_judges.models.llm.local.layers import narrowed, smallest_window
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.local.paths import NARROWED, try_paths
from medal_judges.models.llm.local.prefix_store import PrefixStore
from medal_judges.models.llm.local.probes import (
    ALLOWED,
    ALLOWED_HALF,
    COMMON,
    LONGEST,
    Finding,
    Probe,
)
from medal_judges.models.llm.local.token_model import TokenModel
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Message,
)

Verdict = Literal["pass", "warn", "fail", "skip"]
Result = tuple[Verdict, str, str]  # verdict, figure, note

# Longer windows are not filled: reading them would take longer than all the rest.
LONGEST_WINDOW = 8192
# A dialogue of MEDAL with its prompt fits; below the second, most dialogues lose turns.
ENOUGH, LITTLE = 4096, 1024
# bf16 against fp32, nats a token: what changes a mean over a follow-up's tokens little, and much.
BF16_FINE, BF16_TOO_MUCH = 0.1, 0.5

_TALK = (
    Message("user", "Hi! Did you have a nice weekend?"),
    Message("assistant", "I read a book about trains. Have you ever been on a night train?"),
    Message("user", "Once, from Lisbon to Madrid. 昨日はよく眠れませんでした。"),
    Message("assistant", "Trains are nice."),
)
_SAID = ("That's wrong.", "That is so kind of you to say!", "No.")
_ASKED = ("Why?", "How far is it from Lisbon to Madrid by train, and what does one see?", "Thanks!")
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [1, 2, 3]}},
    "required": ["score"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Check:
    """A line of the table."""

    name: str
    verdict: Verdict
    figure: str
    note: str = ""


def check_llm(setting: str | Mapping[str, Any] | LanguageModel) -> Iterator[Check]:
    """The lines of the table for the model that ``setting`` names, each as it is known.

    Nothing is taken from the cache of answers. Raises ConfigError where the model does not load.
    """
    model = load_llm(setting)
    while isinstance(model, CachedModel):
        model = model.inner
    lines: list[tuple[str, Callable[[Any], Result]]] = [
        ("chat: alone against in a batch", _chat_batch),
        ("likelihood: alone against in a batch", _likelihood_batch),
        ("tokens at the boundary", _boundary),
        ("system role", _system),
        ("thinking", _thinking),
        ("grammar", _grammar),
        ("context", _context),
    ]
    if isinstance(model, LocalModel):
        yield from _ways(model)
        lines.append(("sliding window", _window))
    if isinstance(model, LocalModel | EncoderDecoderModel):
        lines.append(("bf16 against fp32", _half))
    for name, line in lines:
        try:
            result = line(model)
        except (MedalError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            first = (str(error).strip().splitlines() or [""])[0][:200]
            result = ("fail", "–", f"{type(error).__name__}: {first}")
        yield Check(name, *result)


# -- the ways of computing (transformers) ----------------------------------------------------------


def _ways(llm: LocalModel) -> Iterator[Check]:
    paths = try_paths(llm.model)
    findings = paths.findings
    yield _way("tree against plain likelihood", findings["tree"], "the plain loop is taken")
    yield _way("answers against the forward pass", findings["alone"], "", refused="fail")
    batching = {"kept": "beginnings kept from earlier prompts", "left": "padding on the left"}
    batching |= {"none": "prompts of one length together", "alone": "each prompt alone"}
    taken = batching[paths.batching.padding]
    yield _way("prompts of one length together", findings["together"], f"taken: {taken}")
    yield _way("beginnings kept from earlier prompts", findings["kept"], f"taken: {taken}")
    yield _way("padding on the left", findings["left"], f"taken: {taken}")
    right = Probe(llm.model).padded_forward("right")
    yield _way("padding on the right", right, "no base for a LoRA judge with heads")


def _way(name: str, finding: Finding, instead: str, refused: Verdict = "warn") -> Check:
    figure = "–" if finding.deviation is None else f"{finding.deviation:.1e} nats"
    if finding.reason is None:
        return Check(name, "pass", figure)
    return Check(
        name, refused, figure, "; ".join(part for part in (finding.reason, instead) if part)
    )


def _half(llm: LocalModel | EncoderDecoderModel) -> Result:
    import torch

    half = llm.model.dtype != torch.float32
    other = copy.copy(llm)
    if isinstance(other, LocalModel):
        other.prefixes = PrefixStore(0)  # states are those of one precision
    other.model = copy.deepcopy(llm.model).to(torch.float32 if half else torch.bfloat16)  # type: ignore[arg-type]
    group = [[Continuation(_TALK, text, role="user") for text in _SAID]]
    rows = [np.concatenate([x.logprobs for x in m.loglikelihood(group)[0]]) for m in (llm, other)]
    deviation = float(np.abs(rows[0] - rows[1]).mean())
    figure = f"{deviation:.2g} nats a token"
    if deviation <= BF16_FINE:
        return "pass", figure, ""
    # Not a number is too much: fp16 and bf16 can overflow.
    too_much = half and not deviation <= BF16_TOO_MUCH
    return ("fail" if too_much else "warn"), figure, "llm.dtype=fp32 is exact"


def _window(llm: LocalModel) -> Result:
    window = smallest_window(llm.model.config)
    if window is None:
        return "pass", "none", "every layer sees all before it, or keeps a state"
    padding = llm.paths.batching.padding
    # A sliding window is narrowed; windows of other kinds are part of the weights.
    with narrowed(llm.model.config, NARROWED):
        filled = smallest_window(llm.model.config) or window
        common = max(COMMON, filled + 16)
        if filled > LONGEST_WINDOW or common + LONGEST > llm.window:
            return "warn", f"{window} tokens", "longer than is tried; known from the config alone"
        probe = Probe(llm.model, common=common)
        finding = probe.left() if padding == "left" else probe.alone()
    figure = f"{window} tokens: {finding.deviation or 0:.1e} nats"
    return ("pass", figure, "") if finding.holds else ("fail", figure, finding.reason or "")


# -- any backend -----------------------------------------------------------------------------------


def _allowed(llm: LanguageModel) -> tuple[bool, float]:
    """(whether the model computes in 16 bits or where nobody knows, nats allowed)."""
    half = llm.fingerprint().get("dtype") != "float32"
    return half, ALLOWED_HALF if half else ALLOWED


def _apart(llm: LanguageModel, pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    together = np.concatenate([np.asarray(a) for a, _ in pairs])
    alone = np.concatenate([np.asarray(b) for _, b in pairs])
    if not len(together):
        return 0.0
    apart = np.abs(together - alone)
    return float(apart.mean() if _allowed(llm)[0] else apart.max())


def _chat_batch(llm: LanguageModel) -> Result:
    requests = [
        ChatRequest((*_TALK[:end], Message("user", text)), 12, top_logprobs=5)
        for end, text in zip((4, 4, 0), _ASKED, strict=True)
    ]
    together = llm.chat(requests)
    alone = [llm.chat([request])[0] for request in requests]
    if failure := next((c.failure for c in (*together, *alone) if c.finish == "failed"), None):
        return "fail", "–", failure
    pairs, other = [], 0
    for a, b in zip(together, alone, strict=True):
        other += a.text != b.text
        pairs.append(_both(a, b))
    deviation = _apart(llm, pairs)
    figure = f"{deviation:.1e} nats, {other} of {len(alone)} texts differ"
    if deviation <= _allowed(llm)[1] and (not other or _allowed(llm)[0]):
        return ("warn" if other else "pass"), figure, "rounding decides a near tie" if other else ""
    local = "dtype" in llm.fingerprint()
    return ("fail" if local else "warn"), figure, "an answer depends on its batch"


def _both(a: Completion, b: Completion) -> tuple[list[float], list[float]]:
    """Log-probabilities of the words that both answers weighed, up to the first token in which they
    differ: behind it they are answers to other prompts."""
    one: list[float] = []
    two: list[float] = []
    for x, y in zip(a.tokens, b.tokens, strict=False):
        common = x.alternatives.keys() & y.alternatives.keys()
        one += [x.alternatives[word] for word in sorted(common)]
        two += [y.alternatives[word] for word in sorted(common)]
        if x.text != y.text:
            break
    return one, two


def _likelihood_batch(llm: LanguageModel) -> Result:
    groups = [
        [Continuation(_TALK[:end], text, role="user") for end in ends for text in _SAID]
        for ends in ((2, 4), (1,))
    ]
    try:
        together = llm.loglikelihood(groups)
    except ConfigError as error:
        return "skip", "–", f"{error}".splitlines()[0]
    pairs = [
        (given.logprobs, llm.loglikelihood([[continuation]])[0][0].logprobs)
        for group, row in zip(groups, together, strict=True)
        for continuation, given in zip(group, row, strict=True)
    ]
    deviation = _apart(llm, pairs)
    holds = deviation <= _allowed(llm)[1]
    return ("pass" if holds else "fail"), f"{deviation:.1e} nats", ""


def _boundary(llm: LanguageModel) -> Result:
    """The tokens where a prompt ends and an answer begins, beside those that the tokenizer gives
    the whole text."""
    if not isinstance(llm, TokenModel):
        return "skip", "–", "the prompt is not made here (a server's: llm.tokenizer shows it)"
    template, first = llm.template, _TALK[0]
    faults, other = [], 0
    for text in _SAID:
        sequence = template.sequence(Continuation((first,), text))
        whole = _whole_chat(template, first, text)
        other += sum(a != b for a, b in zip(sequence.ids, whole, strict=False))
        bos = template.tokenizer.bos_token_id
        if bos is not None and list(sequence.ids[:2]) == [bos, bos]:
            faults.append("two beginning-of-sequence tokens")
        if sequence.start < len(sequence.ids):
            piece = template.tokenizer.convert_ids_to_tokens(sequence.ids[sequence.start - 1])
            if piece in ("▁", "Ġ"):
                faults.append("a word-start piece alone at the end of the prefix")
    figure = f"{other} ids differ"
    if faults:
        return "fail", figure, "; ".join(dict.fromkeys(faults))
    if other:
        return "warn", figure, "in a whole chat the template writes the assistant's turn otherwise"
    return "pass", figure, ""


def _whole_chat(template: ChatTemplate, first: Message, text: str) -> list[int]:
    """What the tokenizer makes of the whole chat, as its own apply_chat_template does."""
    tokenizer: Any = template.tokenizer
    if template.source is None:
        name = {"user": "User", "assistant": "Assistant"}
        whole = f"{name[first.role]}: {first.content}\nAssistant: {text}\n"
        return template.encode(whole)
    chat = [
        {"role": first.role, "content": first.content},
        {"role": "assistant", "content": text},
    ]
    ids = list(tokenizer.apply_chat_template(chat, return_dict=False))
    bos = tokenizer.bos_token_id
    # A tokenizer that adds one to each text where the template has none is given one here too.
    known = template.encode("a")[:1] == [bos]
    return [bos, *ids] if bos is not None and known and ids[:1] != [bos] else ids


def _system(llm: LanguageModel) -> Result:
    if not isinstance(llm, TokenModel):
        return "skip", "–", "the server places the roles, or the model has none"
    template = llm.template
    notes = {
        "native": "",
        "folded": "the template has no such role: put before the first user turn",
        "transcript": "no chat template: a plain transcript is read",
    }
    turns = "; users and assistants in turns" if template.alternates else ""
    verdict: Verdict = "pass" if template.system == "native" else "warn"
    return verdict, template.system, notes[template.system] + turns


def _thinking(llm: LanguageModel) -> Result:
    request = ChatRequest((Message("user", "Is 7 a prime number? Say yes or no."),), 16)
    (answer,) = llm.chat([request])
    if answer.finish == "failed":
        return "fail", "–", answer.failure or ""
    tokens = answer.usage.reasoning
    thinking = llm.thinking if isinstance(llm, TokenModel) else None
    figure = f"{tokens} tokens"
    if thinking is None:
        if "<think" in answer.text:
            return "fail", figure, "the thinking stands in the answer: set llm.reasoning=true"
        return "pass", figure, ""
    if thinking.block is None:
        return "pass", "no block", ""
    if not thinking.budget:
        return "pass", figure, "has a block, and it is off: llm.thinking=4096 turns it on"
    if tokens >= thinking.budget:
        return "warn", figure, "the thinking was cut: raise llm.thinking"
    return "pass", figure, f"of {thinking.budget} (llm.thinking)"


def _grammar(llm: LanguageModel) -> Result:
    ask = (Message("user", 'Rate the sentence "Trains are nice." as JSON, {"score": 1, 2 or 3}.'),)
    (answer,) = llm.chat([ChatRequest(ask, 40, schema=_SCHEMA)])
    if answer.finish == "failed":
        return "fail", "–", answer.failure or ""
    try:
        valid = json.loads(answer.text).get("score") in (1, 2, 3)
    except (ValueError, AttributeError):
        valid = False
    if answer.enforced:
        held = "held, valid" if valid else "held, not valid"
        return ("pass" if valid else "fail"), held, "" if valid else repr(answer.text[:60])
    free = "free, valid" if valid else "free, not valid"
    return "warn", free, "the schema is not enforced: answers are read tolerantly"


def _context(llm: LanguageModel) -> Result:
    verdict: Verdict = "pass" if llm.context >= ENOUGH else "warn"
    note = "" if verdict == "pass" else "long dialogues lose their oldest turns"
    if llm.context < LITTLE:
        note = "most dialogues lose their oldest turns"
    return verdict, f"{llm.context} tokens", note
