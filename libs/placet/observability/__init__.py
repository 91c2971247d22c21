"""Structured logs, metrics, health and the request context that ties one request's records together."""
