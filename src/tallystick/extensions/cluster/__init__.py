"""The log on NATS JetStream, for several machines."""
