"""What this process tells about itself: numbers, lines and spans.

Knows names, times and counts; nothing of what is stored, never a token. `metrics` counts always,
since that costs next to nothing. `tracing` and `otlp` do nothing until the standard OTEL_*
variables name a collector, and OpenTelemetry is imported only then, in `otlp`. Numbers never
carry an id, an actor or a tenant's name, save those of tenants that the operator listed.
"""
