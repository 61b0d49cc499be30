"""Judges inside other tools: one file per tool, which is imported only when it is used."""
