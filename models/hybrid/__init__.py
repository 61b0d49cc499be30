"""Hybrid judges: several saved judges as one (selected, stacked, or a cheap one before a dear)."""
