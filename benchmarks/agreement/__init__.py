"""What `agree.py` compares, and how."""
