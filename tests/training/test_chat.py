from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.training.small_model import save_small_model
from training.chat import conversation, render
from training.packing import NOT_PREDICTED, decode, pack
from training.tokenizer import ByteTokenizer, ConversationError, PretrainedTokenizer, Tokenizer

QUESTION = {"role": "user", "content": "2+2?"}
ANSWER = {"role": "assistant", "content": "4."}


class Templated(ByteTokenizer):
    """Bytes with a template: <u>question<a>answer<e>, and <a> alone where an answer is asked for."""

    marks = {"user": "<u>", "assistant": "<a>", "system": "<s>"}  # noqa: RUF012

    def chat_text(self, messages: Sequence[dict[str, str]], *, asks_for_answer: bool) -> str | None:
        turns = [f"{self.marks[message['role']]}{self.shown(message, messages)}<e>" for message in messages]
        return "".join(turns) + ("<a>" if asks_for_answer else "")

    def shown(self, message: dict[str, str], messages: Sequence[dict[str, str]]) -> str:
        return message["content"]


class Forgetful(Templated):
    """As templates of reasoning models: an answer loses its thoughts once another turn follows."""

    def shown(self, message: dict[str, str], messages: Sequence[dict[str, str]]) -> str:
        content = message["content"]
        return content if message is messages[-1] else content.rpartition("|")[2]


def learnt(record: dict[str, Any], tokenizer: Tokenizer) -> tuple[str, str]:
    """The text as the model reads it, and below each of its bytes the one it must say next, or a dot."""
    words = conversation(render(record, tokenizer), tokenizer)
    told = decode(pack([words], len(words) - 1, 0))
    shown = {ByteTokenizer.end: "$", NOT_PREDICTED: "_"}
    read = "".join(shown.get(int(token), chr(token)) for token in told.tokens[0])
    return read, "".join(shown.get(int(label), chr(max(0, label))) for label in told.labels[0])


@pytest.mark.parametrize(
    ("record", "read", "said"),
    [
        ({"prompt": "2+2=", "completion": "4"}, "2+2=4", "___4$"),
        ({"messages": [QUESTION, ANSWER]}, "user: 2+2?\nassistant: 4.\n", "_" * 21 + "4.\n$"),
    ],
)
def test_without_a_template_the_answer_and_the_end_of_text_are_learnt(
    record: dict[str, Any], read: str, said: str
) -> None:
    assert learnt(record, ByteTokenizer()) == (read, said)


def test_with_a_template_the_answers_and_their_end_marks_are_learnt_and_nothing_else() -> None:
    thanks = {"role": "user", "content": "Thanks"}
    welcome = {"role": "assistant", "content": "Bye"}
    read, said = learnt({"messages": [QUESTION, ANSWER, thanks, welcome]}, Templated())
    assert read + ">" == "<u>2+2?<e><a>4.<e><u>Thanks<e><a>Bye<e>"
    assert said == "____________4.<e>_______________Bye<e>"


def test_a_prompt_and_its_completion_are_a_question_and_an_answer_to_a_model_with_a_template() -> None:
    pair = learnt({"prompt": "2+2?", "completion": "4."}, Templated())
    assert pair == learnt({"messages": [QUESTION, ANSWER]}, Templated())


def test_a_conversation_that_ends_with_a_question_learns_the_answers_before_it() -> None:
    _, said = learnt({"messages": [QUESTION, ANSWER, QUESTION]}, Templated())
    assert said.strip("_") == "4.<e>"


def test_an_answer_that_the_template_later_rewrites_is_not_learnt_as_it_was() -> None:
    first = {"role": "assistant", "content": "hm|4."}
    last = {"role": "assistant", "content": "so|8."}
    read, said = learnt({"messages": [QUESTION, first, QUESTION, last]}, Forgetful())
    assert read + ">" == "<u>2+2?<e><a>4.<e><u>2+2?<e><a>so|8.<e>"
    assert said.strip("_") == "so|8.<e>"


def test_a_template_that_hides_the_only_answer_is_refused() -> None:
    first = {"role": "assistant", "content": "hm|4."}
    with pytest.raises(ConversationError, match="chat template hides"):
        render({"messages": [QUESTION, first, QUESTION]}, Forgetful())


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (
            {"text": "only text"},
            "neither a list of messages nor a prompt and a completion that are both text; its fields are: text",
        ),
        ({"prompt": "a", "completion": None}, "neither a list of messages nor a prompt"),
        ({"messages": 5}, "has int as its messages, not a list"),
        ({"messages": []}, "no message of the assistant's"),
        ({"messages": [QUESTION]}, "no message of the assistant's"),
        ({"messages": [{"role": "assistant"}]}, "a role and a content"),
        ({"messages": ["hello"]}, "a role and a content"),
    ],
)
def test_what_is_no_conversation_is_refused_with_the_reason(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConversationError, match=reason):
        render(record, ByteTokenizer())


def test_characters_of_several_bytes_are_learnt_whole() -> None:
    words = conversation(render({"prompt": "ü", "completion": "é"}, ByteTokenizer()), ByteTokenizer())
    told = decode(pack([words], len(words) - 1, 0))
    assert told.labels[0].tolist() == [NOT_PREDICTED, *"é".encode(), ByteTokenizer.end]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> PretrainedTokenizer:
    """Of single characters, with a template as it lies in a model's directory."""
    from transformers import AutoTokenizer

    directory = tmp_path_factory.mktemp("model")
    save_small_model(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
        "[{{ m.role }}]{{ m.content }}[/]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    tokenizer.save_pretrained(directory)
    return PretrainedTokenizer(str(directory))


def test_a_pretrained_model_s_own_template_is_used(pretrained: PretrainedTokenizer) -> None:
    rendered = render({"messages": [QUESTION, ANSWER]}, pretrained)
    assert rendered.text == "[user]2+2?[/][assistant]4.[/]"
    words = conversation(rendered, pretrained)
    told = decode(pack([words], len(words) - 1, 0))
    said = [chr(label + 32) for label in told.labels[0].tolist() if label != NOT_PREDICTED]
    assert "".join(said) == "4.[/]"


def test_a_template_s_refusal_is_told(pretrained: PretrainedTokenizer) -> None:
    with pytest.raises(ConversationError, match="template: no tools here"):
        render({"messages": [QUESTION, {"role": "tool", "content": "x"}, ANSWER]}, pretrained)


def test_an_answer_that_opens_a_conversation_is_not_learnt_where_a_template_asks(
    pretrained: PretrainedTokenizer,
) -> None:
    hello = {"role": "assistant", "content": "Hello"}
    rendered = render({"messages": [hello, QUESTION, ANSWER]}, pretrained)
    assert [rendered.text[begin:end] for begin, end in rendered.answers] == ["4.[/]"]
    with pytest.raises(ConversationError, match="begins with its only message of the assistant's"):
        render({"messages": [hello, QUESTION]}, pretrained)


def test_a_template_that_fails_is_told_as_one_that_refuses(tmp_path: Path) -> None:
    save_small_model(tmp_path)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content + 1 }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ConversationError, match=r"refused by the model's chat template: .* str"):
        render({"messages": [QUESTION, ANSWER]}, PretrainedTokenizer(str(tmp_path)))


def test_another_template_is_another_tokenizer(pretrained: PretrainedTokenizer, tmp_path: Path) -> None:
    save_small_model(tmp_path)
    assert PretrainedTokenizer(str(tmp_path)).digest() != pretrained.digest()
