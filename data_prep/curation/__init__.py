"""From labelled dialogues to the few that people annotate (MEDAL, section 5.1)."""
