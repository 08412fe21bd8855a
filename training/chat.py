"""Conversations into text of which only the answers are learnt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.errors import fields
from training.packing import Words, document
from training.tokenizer import ConversationError, Tokenizer

ANSWERS = "assistant"


@dataclass(frozen=True)
class Rendered:
    text: str
    answers: list[tuple[int, int]]
    """Where in the text, first character and the one after the last."""
    ended: bool
    """By the template's own marks; otherwise the tokenizer's end of text follows."""


def messages_of(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """From {"messages": [{"role", "content"}, ...]} or {"prompt", "completion"}. Raises ConversationError otherwise."""
    if record.get("messages") is None:
        asked, answered = record.get("prompt"), record.get("completion")
        if not isinstance(asked, str) or not isinstance(answered, str):
            raise ConversationError(
                "has neither a list of messages nor a prompt and a completion that are both text; its fields are: "
                f"{fields(record)}"
            )
        return [{"role": "user", "content": asked}, {"role": ANSWERS, "content": answered}]
    messages = record["messages"]
    if not isinstance(messages, list):
        raise ConversationError(f"has {type(messages).__name__} as its messages, not a list")
    told: list[dict[str, str]] = []
    for message in messages:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None, None)
        if not isinstance(role, str) or not isinstance(content, str):
            raise ConversationError("has a message without a role and a content that are both text")
        told.append({"role": role, "content": content})
    if not any(message["role"] == ANSWERS for message in told):
        raise ConversationError(f"has no message of the {ANSWERS}'s, so nothing is to be learnt")
    return told


def render(record: Mapping[str, Any], tokenizer: Tokenizer) -> Rendered:
    """By the tokenizer's template. Without one: a prompt and its completion as they are, messages as "role: content".

    Raises ConversationError where the record is none, or where the template hides its answers.
    """
    messages = messages_of(record)
    text = tokenizer.chat_text(messages, asks_for_answer=False)
    if text is None:
        return _plain(messages, with_roles=record.get("messages") is not None)
    # What opens a conversation answers nothing: transformers renders no prompt of no messages.
    asked_for = [index for index, message in enumerate(messages) if index and message["role"] == ANSWERS]
    if not asked_for:
        raise ConversationError(f"begins with its only message of the {ANSWERS}'s, which so answers nothing")
    answers: list[tuple[int, int]] = []
    for index in asked_for:
        before = tokenizer.chat_text(messages[:index], asks_for_answer=True) or ""
        up_to = tokenizer.chat_text(messages[: index + 1], asks_for_answer=False) or ""
        # A template may write earlier turns in another way once others follow (without their reasoning, say); such a
        # turn is not what the model will be asked for, and is not learnt.
        if text.startswith(up_to) and up_to.startswith(before):
            answers.append((len(before), len(up_to)))
    if not answers:
        raise ConversationError("cannot be learnt: the model's chat template hides which part of it is the answers")
    return Rendered(text, answers, ended=True)


def _plain(messages: Sequence[Mapping[str, str]], *, with_roles: bool) -> Rendered:
    text, answers = "", []
    for message in messages:
        text += f"{message['role']}: " if with_roles else ""
        begin = len(text)
        text += message["content"] + ("\n" if with_roles else "")
        if message["role"] == ANSWERS:
            answers.append((begin, len(text)))
    return Rendered(text, answers, ended=False)


def conversation(rendered: Rendered, tokenizer: Tokenizer) -> Words:
    """A token belongs to an answer when it starts within it."""
    ids, starts = tokenizer.encode_with_starts(rendered.text)
    learnt = [any(begin <= start < end for begin, end in rendered.answers) for start in starts]
    if not rendered.ended and tokenizer.end is not None:
        ids = [*ids, tokenizer.end]
        learnt = [*learnt, rendered.answers[-1][1] == len(rendered.text)]
    return document(ids, learnt)
