"""Drives runs: plans, proposes tool calls, waits for people, composes cited answers."""
