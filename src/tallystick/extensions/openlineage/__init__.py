"""Lineage as OpenLineage events."""
