"""Texts as parts of file names."""

import re

LONGEST = 80


def file_name(text: str) -> str:
    """The text in letters, digits, and _ . +, safe in every shell, file system and link."""
    return re.sub(r"[^A-Za-z0-9.+]+", "_", text).strip("_")[:LONGEST]
