"""The one-shot job before the services: streams and buckets, database roles and migrations, the demo world."""
