"""NATS and PostgreSQL behind the ports."""
