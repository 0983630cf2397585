"""Synthetic tasks: sequences that are made on the fly, each a function of its position."""
