"""Pure decisions of the agent service: no I/O, no clock, no language model."""
