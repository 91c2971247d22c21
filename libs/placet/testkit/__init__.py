"""What tests need and services never import: a real nats-server on a free port, builders, the specification report."""
