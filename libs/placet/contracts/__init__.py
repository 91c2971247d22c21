"""Messages, subjects, error codes and topology shared by every service. Pure pydantic, no I/O."""
