"""Reasoning between think tags in the text of an answer."""

from __future__ import annotations

import re

THOUGHTS = "thoughts left out"  # in the counts of a reader
# Code is text: an answer can explain the tags. A closing tag can stand alone because many chat
# templates write the opening tag, which is then no part of what the model returned. Magistral
# writes [THINK], Kimi ◁think▷, gpt-oss a channel, Open WebUI a folded part.
_TAG = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning)"
_THOUGHT = re.compile(
    rf"<({_TAG})(?:\s[^<>]*)?>.*?(?P<end></\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_MARKUP = re.compile(
    r"(?P<code>```.*?(?:```|\Z)|`[^`\n]+`)"
    rf"|(?P<alone></{_TAG}\s*>|(?-i:\[/THINK\])|◁/think▷)"
    rf"|<(?P<tag>{_TAG})(?:\s[^<>]*)?>.*?(?:</(?P=tag)\s*>|\Z)"
    r"|(?-i:\[THINK\]).*?(?:\[/THINK\]|\Z)|◁think▷.*?(?:◁/think▷|\Z)"
    r'|<details\s+type="(?:reasoning|tool_calls|code_interpreter)".*?(?:</details\s*>|\Z)'
    r"|<\|channel\|>analysis<\|message\|>.*?(?:<\|channel\|>final<\|message\|>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
MAY_THINK = re.compile(r"[<\[◁]")  # no other text has tags


def remove_thoughts(answer: str) -> tuple[str, int]:
    """Returns ``answer`` without thoughts (text between think tags), and the number of thoughts.

    If only the closing tag is there, all text before it is a thought. If only the opening tag is
    there, all text after it is. Tags in Markdown code do not count.

    >>> remove_thoughts("<think>The user asks for an hour.</think>At nine.")
    ('At nine.', 1)
    """
    if not MAY_THINK.search(answer):
        return answer, 0
    texts: list[str] = []
    count, start = 0, 0
    for markup in _MARKUP.finditer(answer):
        if markup["code"]:
            continue
        texts.append(answer[start : markup.start()])
        if markup["alone"]:
            texts.clear()
        count, start = count + 1, markup.end()
    if count:
        return ("".join([*texts, answer[start:]]).strip(), count)
    return (answer, 0)


def join_thought_lines(transcript: str) -> str:
    """Returns ``transcript`` with the line breaks in each complete thought (``<think>...</think>``)
    replaced by spaces.

    No line of a thought then looks like a message (``User: ...``).
    """

    def join_lines(thought: re.Match[str]) -> str:
        if thought["end"]:
            return thought[0].replace("\n", " ")
        return thought[0]

    return _THOUGHT.sub(join_lines, transcript)
