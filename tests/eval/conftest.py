"""Fixtures of the benchmark's tests."""

from .benchmark_case import counting_family, folder

__all__ = ["counting_family", "folder"]
