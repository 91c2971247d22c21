"""The audit trail: what is recorded, under which entity, with which request id."""
