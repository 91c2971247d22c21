"""NATS: connection, RPC, appends, reads, key-value, queues, timers, live events, provisioning."""
