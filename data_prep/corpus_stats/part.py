"""Part: some of the dialogues of a set, by language, chatbot and user model."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.labelled import LabelledDialogue

NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class Part:
    """Dialogues of one language, chatbot and user model; None stands for all of them."""

    lang: str | None = None
    chatbot: str | None = None
    user: str | None = None

    def holds(self, cell: Part) -> bool:
        """True where ``cell``, which names all three, belongs to this part."""
        return (
            self.lang in (None, cell.lang)
            and self.chatbot in (None, cell.chatbot)
            and self.user in (None, cell.user)
        )


ALL = Part()


def cell_of(row: LabelledDialogue) -> Part:
    """The finest part that a row belongs to."""
    models = row.dialogue.models
    return Part(
        row.dialogue.lang, models.get("assistant") or NOT_STATED, models.get("user") or NOT_STATED
    )
