"""Where summaries are kept."""
