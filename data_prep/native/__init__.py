"""Native against translated dialogues (MEDAL, section 3.2 and appendix C.5)."""
