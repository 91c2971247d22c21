"""Checkpoints: where a run's graph stands, in PostgreSQL. A program counter, never a source of truth."""
