"""Gateway: HTTP and event streams outside, commands and stored events inside; authentication."""
