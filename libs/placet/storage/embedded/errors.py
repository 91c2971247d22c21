"""What can go wrong before the embedded server is ready."""


class EmbeddedPostgresError(RuntimeError):
    """The embedded server cannot be prepared or started; the message says what to do about it."""
