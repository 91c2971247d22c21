"""Placet: governed tools for AI agents. The model proposes; policy, people and the program decide and execute."""

__version__ = "0.1.0"
