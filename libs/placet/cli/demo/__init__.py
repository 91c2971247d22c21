"""`placet demo`: the main job, step by step, every step checked."""
