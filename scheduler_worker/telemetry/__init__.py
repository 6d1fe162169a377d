"""How the worker is seen from outside: logs, their event names, and metrics."""
