"""The subcommands. Module level imports stay light here: `placet --help` must answer at once."""
