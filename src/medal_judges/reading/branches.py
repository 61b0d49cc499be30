"""Reads one branch of a chat in which a message has several answers or was edited.

It is the current branch, if the chat names it. Otherwise the branch starts at the first message and
takes, at each fork, the best ranked answer, or the newest answer if none has a rank.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.reading.columns import lookup, parsed_cell
from medal_judges.reading.instants import position
from medal_judges.reading.names import Counts, Names, Record, find_key
from medal_judges.records.validation import as_text

_ID = ("id", "message_id", "uuid")
_PARENT = ("parent_id", "parent", "parent_message_id", "parent_message_uuid")
LINKS = (*_ID, *_PARENT, "rank")
# Paths to the nodes of a tree by id, and to the id of the current one.
_TREES = (
    ("mapping", "current_node"),  # ChatGPT
    ("chat.history.messages", "chat.history.currentId"),  # Open WebUI
)


def one_branch(record: object, counts: Counts) -> object:
    """Returns an exported chat of ChatGPT, Open WebUI or OASST with the ``messages`` of one branch
    in place of its tree, and any other record unchanged. ``counts`` counts what is left out.
    Returns a RecordError if the current message is not in the tree."""
    for path, current in _TREES:
        nodes = lookup(record, path)
        if isinstance(nodes, Mapping):
            leaf = as_text(lookup(record, current))
            nodes = objects([*nodes.values()])
            return _without_tree(record, path.partition(".")[0], nodes, leaf, counts)
    if isinstance(lookup(record, "prompt.replies"), list):  # OASST
        nodes = objects([parsed_cell(lookup(record, "prompt"), "{")])
        for node in nodes:
            nodes += objects(node.get("replies"))
        return _without_tree(record, "prompt", nodes, None, counts)
    return record


def objects(value: object) -> list[Record]:
    """Returns the objects in a list; none for another value."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def _without_tree(
    record: Any, field: str, nodes: Sequence[Record], current: object, counts: Counts
) -> object:
    if current not in (None, *(_value(node, _ID) for node in nodes)):
        return RecordError(
            "current message", f"the id of a message in {field}", current
        )
    branch = _branch(nodes, counts, current)
    messages = []
    for node in branch:
        message = _message(node, counts)
        if message is not None:
            messages.append(message)
    chat = {"lang": lookup(branch, "0.lang"), **record}
    del chat[field]
    return chat | {"messages": messages}


def _branch(
    nodes: Sequence[Record], counts: Counts, current: object = None
) -> list[Any]:
    """Returns the nodes from a first node to ``current``. Without ``current``, the best answers
    lead to the last node.
    """
    by_id = {_value(node, _ID): node for node in nodes}
    best_answers = {}
    # The best answer, and of equals the last one, replaces others.
    for node in sorted(nodes, key=_rank, reverse=True):
        parent = _value(node, _PARENT)
        best_answers[parent if parent in by_id else None] = _value(node, _ID)
    leaf = current
    while current is None and leaf in best_answers:
        leaf = best_answers.pop(leaf)
    branch = []
    while leaf in by_id:
        branch.append(by_id.pop(leaf))  # a circle ends
        leaf = _value(branch[-1], _PARENT)
    if len(branch) < len(nodes):
        counts["messages of other branches left out"] += len(nodes) - len(branch)
    return branch[::-1]


def _value(node: Record, names: Names) -> str | None:
    value = as_text(node.get(find_key(node, names) or ""))
    if isinstance(value, str):
        return value
    return None


def _rank(node: Record) -> float:
    rank = position(node.get("rank"))
    if rank is None:
        return math.inf
    return rank.nanoseconds


def _message(node: Record, counts: Counts) -> Any:
    """Returns the message of a node. Returns None for a root without a message, and for a message
    of ChatGPT that the user did not see.
    """
    message = node.get("message", node)
    content = lookup(message, "content")
    if not isinstance(content, Mapping):
        return message
    if lookup(message, "metadata.is_visually_hidden_from_conversation"):
        counts["hidden messages left out"] += 1
        return None
    role, receiver = lookup(message, "author.role"), message.get("recipient")
    if receiver not in (None, "all"):
        arguments = lookup(content, "parts.0", content.get("text"))
        return {
            "role": role,
            "tool_calls": [{"name": receiver, "arguments": arguments}],
        }
    return {"role": role, "content": content.get("parts", content)}


def without_siblings(messages: Any, counts: Counts) -> Any:
    """Returns the messages of one branch, or all messages if the list is no tree.

    It is a tree if all messages but the first name an earlier message, and several messages of one
    role name the same one. In a plain list, too, a message may name the message that it replies to.
    """
    nodes = objects(messages)
    if not any(find_key(node, _PARENT) for node in nodes[:2]):  # of most chats
        return messages
    ids: set[str | None] = set()
    links = set()
    parents: Counter[str | None] = Counter()
    for node in nodes:
        parent = _value(node, _PARENT)
        ids.add(_value(node, _ID))
        links.add((parent, str(node.get("role"))))
        parents[parent] += 1
    is_fork = len(links) == len(parents) < len(nodes)
    has_one_root = len(parents.keys() - ids) == 1 and parents[None] < 2
    if is_fork and has_one_root and len(ids) == len(messages):
        return _branch(nodes, counts)
    return messages
