"""What every HTTP call passes before a handler: request id, authentication, body limit, idempotency."""
