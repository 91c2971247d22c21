"""The built-in tool packs: real tools on a real database, found by the same entry points as anybody's."""
