"""What the offline model thinks: rules instead of a language model, so that everything runs without a key."""
