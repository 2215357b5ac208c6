"""Typed memories under an ontology, with contents and their files."""
