"""What this process reports about itself: metrics, logs and traces.

Knows names, times and counts; nothing of what is stored, never a token. `metrics` counts always,
since that costs next to nothing. `tracing` and `otlp` do nothing until the standard OTEL_*
variables name a collector, and OpenTelemetry is imported only then, in `otlp`. Metrics never
carry an id, an actor or a tenant's name, save those of tenants that the operator listed.
"""
