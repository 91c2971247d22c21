"""The nodes of a run's graph, one room each."""
