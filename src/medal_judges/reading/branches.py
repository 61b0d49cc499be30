"""Chats in which a message has several answers, or was edited: one branch of the tree is read.

It is the current branch, if the chat names it. Else it goes from the first message to the best
ranked answer, or to the newest one, at each fork.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from medal_judges.errors import RecordError
from medal_judges.reading.instants import position
from medal_judges.reading.names import find_key
from medal_judges.records.validation import as_text

_IDS = ("id", "message_id", "uuid")
_PARENTS = ("parent_id", "parent", "parent_message_id", "parent_message_uuid")
# ChatGPT's types of content and of its parts.
_SETTINGS = ("user_editable_context", "model_editable_context")
_THOUGHTS = ("thoughts", "reasoning_recap")
_PARTS = {
    "audio_transcription": "text",
    "image_asset_pointer": "image",
    "audio_asset_pointer": "audio",
    "real_time_user_audio_video_asset_pointer": "video",
}
_HIDDEN = "is_visually_hidden_from_conversation"
_LEFT_OUT = "messages of other branches left out"


class _Node(NamedTuple):
    id: object
    parent: object
    record: Mapping[str, Any]


def one_branch(record: object, counts: Counter[str]) -> object:
    """Returns an exported chat of ChatGPT, Open WebUI or OASST with the ``messages`` of one branch
    in place of its tree, and any other record unchanged. ``counts`` counts what is left out.
    Returns a RecordError if the current message is not in the tree."""
    tree = _tree(record) if isinstance(record, Mapping) else None
    if tree is None or not isinstance(record, Mapping):
        return record
    field, items, current = tree
    nodes = [_node(item) for item in items]
    if current is not None and current not in [node.id for node in nodes]:
        return RecordError("current message", f"the id of a message in {field}", current)
    branch = _branch(nodes, current)
    if len(branch) < len(nodes):
        counts[_LEFT_OUT] += len(nodes) - len(branch)
    rest = {name: value for name, value in record.items() if name != field}
    rest.setdefault("lang", branch[0].record.get("lang") if branch else None)
    messages = [_message(node.record, counts) for node in branch]
    return rest | {"messages": [message for message in messages if message is not None]}


def _tree(record: Mapping[str, Any]) -> tuple[str, Iterable[Any], object] | None:
    """Returns the field of a tree, its nodes, and the id of the current one."""
    mapping, chat, prompt = record.get("mapping"), record.get("chat"), record.get("prompt")
    if isinstance(mapping, Mapping):  # ChatGPT
        return "mapping", mapping.values(), record.get("current_node")
    history = chat.get("history") if isinstance(chat, Mapping) else record.get("history")
    if isinstance(history, Mapping) and isinstance(history.get("messages"), Mapping):  # Open WebUI
        field = "chat" if isinstance(chat, Mapping) else "history"
        return field, history["messages"].values(), history.get("currentId")
    if isinstance(prompt, Mapping) and "replies" in prompt:  # OASST
        return "prompt", _replies(prompt), None
    return None


def _replies(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield message
    for reply in message.get("replies") or ():
        yield from _replies(reply)


def _node(record: Any) -> _Node:
    if not isinstance(record, Mapping):
        return _Node(None, None, {})
    id, parent = find_key(record, _IDS), find_key(record, _PARENTS)
    return _Node(as_text(record.get(id or "")), as_text(record.get(parent or "")), record)


def _branch(nodes: Sequence[_Node], current: object = None) -> list[_Node]:
    """Returns the nodes from a root to ``current``, or to the leaf that one arrives at."""
    by_id = {node.id: node for node in nodes}
    leaf = _leaf(nodes) if current is None else current
    branch: list[_Node] = []
    while leaf in by_id:
        node = by_id.pop(leaf)  # a circle ends
        branch.insert(0, node)
        leaf = node.parent
    return branch


def _leaf(nodes: Sequence[_Node]) -> object:
    ids = {node.id for node in nodes}
    children: defaultdict[object, list[_Node]] = defaultdict(list)
    for node in nodes:
        children[node.parent if node.parent in ids else None].insert(0, node)
    leaf: object = None
    while leaf in children:
        leaf = min(children.pop(leaf), key=_rank).id
    return leaf


def _rank(node: _Node) -> float:
    rank = position(node.record.get("rank"))
    return math.inf if rank is None else rank.nanoseconds


def _message(record: Mapping[str, Any], counts: Counter[str]) -> Any:
    """Returns the message of a node, one of ChatGPT's with content parts; None if the user did not
    see it, or if there is none, as in a root."""
    message = record.get("message", record)
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, Mapping):
        return message
    kind, metadata = content.get("content_type"), message.get("metadata")
    is_hidden = isinstance(metadata, Mapping) and metadata.get(_HIDDEN)
    if is_hidden or kind in _SETTINGS:
        counts["hidden messages left out"] += 1
        return None
    author, receiver = message.get("author"), message.get("recipient")
    role = author.get("role") if isinstance(author, Mapping) else None
    if kind in _THOUGHTS:
        return {"role": role, "content": [{"type": "reasoning"}]}
    # The code of a call and the output of a tool are no parts.
    parts = content.get("parts") or [content.get("text") or ""]
    if receiver not in (None, "all"):
        return {"role": role, "tool_calls": [{"name": receiver, "arguments": parts[0]}]}
    return {"role": role, "content": [_part(part) for part in parts]}


def _part(part: object) -> object:
    if not isinstance(part, Mapping):
        return part
    kind = part.get("content_type")
    return {**part, "type": _PARTS.get(str(kind), kind)}


def without_siblings(
    records: Sequence[Mapping[str, Any]], roles: Sequence[object], counts: Counter[str]
) -> list[int]:
    """Returns the places of the messages of one branch, if they name the messages before them and
    several messages of one role follow the same one. Else the places of all: they are a list, in
    which a message may name what it replies to."""
    places = list(range(len(records)))
    if len(records) < 3 or find_key(records[1], _PARENTS) is None:
        return places
    nodes = [_node(record) for record in records]
    ids = {node.id for node in nodes}
    siblings: defaultdict[object, list[object]] = defaultdict(list)  # parent -> roles
    for node, role in zip(nodes, roles, strict=True):
        siblings[node.parent].append(role)
    roots = [parent for parent in siblings if parent not in ids]
    is_tree = len(ids) == len(nodes) and len(roots) == 1 and len(siblings[None]) < 2
    is_fork = any(len(answers) > 1 for answers in siblings.values())
    is_mixed = any(len(set(answers)) > 1 for answers in siblings.values())
    if not is_tree or not is_fork or is_mixed:
        return places
    branch = [nodes.index(node) for node in _branch(nodes)]
    counts[_LEFT_OUT] += len(nodes) - len(branch)
    return branch
