"""Tests of the benchmark itself: that it would notice a wrong answer.

From `benchmarks/`, in its own environment: `python -m unittest`.
"""
