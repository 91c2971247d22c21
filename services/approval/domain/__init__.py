"""Pure decisions about proposals: fold events into a state, decide commands into events."""
