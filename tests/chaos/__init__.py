"""Killing real processes between every two steps of a run."""
