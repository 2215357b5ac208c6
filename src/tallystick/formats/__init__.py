"""Formats of text, read with one meaning."""
