"""From messages to driven, cancelled and completed runs."""
