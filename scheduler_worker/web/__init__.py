"""The small HTTP port: health, readiness, metrics."""
