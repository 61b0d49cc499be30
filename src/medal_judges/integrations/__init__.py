"""Judges inside tools that people already run; each file is one tool, and imports it when used."""
