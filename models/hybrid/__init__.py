"""Hybrid judges: several saved judges as one (selected, stacked, or a weak one before a strong)."""
