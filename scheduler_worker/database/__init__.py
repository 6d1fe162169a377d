"""Postgres: tables, stores, the lease and the notifications."""
