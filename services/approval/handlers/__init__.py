"""Message → domain → ports."""
