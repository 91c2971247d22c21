"""NATS, the knowledge store and the approval service behind the ports."""
