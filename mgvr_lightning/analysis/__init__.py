"""Reads run folders; imports no training code."""
