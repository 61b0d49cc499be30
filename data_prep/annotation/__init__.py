"""Annotation by people: what they are given, and what comes back (MEDAL, sections 3.5 and 5.2)."""
