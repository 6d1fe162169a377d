"""Measures the worker against its bars: real Postgres, real gRPC, real processes. Run by `make bench`."""
