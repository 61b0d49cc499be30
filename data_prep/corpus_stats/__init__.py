"""Statistics of a set of dialogues: lengths, lexical diversity, issues, overall (MEDAL, 4.2)."""
