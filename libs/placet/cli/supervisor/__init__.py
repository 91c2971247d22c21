"""`placet up`: everything as children of one process, started, watched, started again, drained."""
