"""How fast search is, how it grows, and what it costs to fill: `make bench-search`."""
