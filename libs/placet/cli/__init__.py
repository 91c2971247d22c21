"""The `placet` command."""
