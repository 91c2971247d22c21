"""The approval service: proposals, event-sourced; who decided what, on which digest, provably."""
