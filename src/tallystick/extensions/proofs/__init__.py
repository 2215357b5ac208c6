"""Checkpoints, tiles and proofs of a log, the keys that sign them, witnesses, and receipts of finished tasks."""
