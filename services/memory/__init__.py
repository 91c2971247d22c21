"""Conversation summaries: a hint for resolving references, never a source of facts (M1)."""
