"""Rows in exactly the form of MEDAL's released processing step (facts of johndmendonca/medal at
7353448): the texts are ours, the keys, types, ids and the cleaning of turns are that step's."""

from typing import Any

USER, CHATBOT = "gemma-3-27b-it", "Qwen2.5-3B-Instruct"
WORDS = {
    "zh": "chinese",
    "en": "english",
    "fr": "french",
    "de": "german",
    "pt": "portuguese",
    "es": "spanish",
}
SAID = {
    "zh": (
        "我昨天发现奶奶的菜谱不见了。",
        "真可惜,要不要一起找找看?",
        "好的,先看厨房吧。",
    ),
    "en": (
        "Sure I lost the recipe book",
        "Use the kitchen drawers",
        "user: Yes there it was",
    ),
    "fr": (
        "J'ai perdu le livre de recettes",
        "Regarde dans les tiroirs",
        "Oui merci il y est",
    ),
    "de": (
        "Ich suche Omas Rezepte",
        "Schau in der Küche unter der Uhr",
        "Da waren sie",
    ),
    "pt": (
        "Perdi o livro de receitas",
        "Procura nas gavetas",
        "Estava mesmo nas gavetas",
    ),
    "es": ("Perdí el libro de recetas", "Busca en los cajones", "Era eso, gracias"),
}
SCENES = (
    "Scene Description: PersonX lost a recipe book. Now PersonX searches for it. PersonX is sad.\n"
    "Persona: A baker who collects old postcards.\nGender: female",
    "Scene Description: PersonX found a stray cat. PersonX is happy.\n"
    "Persona: A night nurse.\nGender: male",
)


def released_row(
    lang: str, context: int = 0, turns: int = 3, **fields: Any
) -> dict[str, Any]:
    """One row; the user model's first message, then answers in turn, cleaned as they were."""
    contents = [SAID[lang][i % 3] for i in range(turns)]
    roles = [("user", "assistant")[i % 2] for i in range(turns)]
    word = WORDS[lang]
    return {
        "source": f"affective_persona-atomic10x_sample-{word}-{USER}-{context}",
        "scene": f"{SCENES[context % len(SCENES)]}\nLanguage/Culture: {word}",
        "lang": word,
        "dialogue": [
            {"role": role, "content": content.strip('"').strip("user: ")}
            for role, content in zip(roles, contents, strict=True)
        ],
        "models": [(USER, CHATBOT)[i % 2] for i in range(turns)],
        "ended": turns % 2 == 0,
    } | fields
