"""The page of a benchmark: one self-contained HTML file, with its figures as PNG and CSV."""
