"""Costs, as ratios measured in one run: never a timed test."""
