"""What the ports are made of here: the bus, the key-value store, the issuer's keys."""
