"""How well search finds: `make bench-retrieval`, with `DATA=directory` for question sets of your own."""
