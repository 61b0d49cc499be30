"""Fixtures of the tests of benchmarks, reports, comparisons and trials."""

from .benchmark_case import counting_family, folder

__all__ = ["counting_family", "folder"]
