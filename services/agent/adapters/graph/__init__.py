"""The graph of a run (U1): nodes as plain functions, LangGraph only where they are put together and driven."""
