"""The cases of `agree.py`, and the comparison."""
