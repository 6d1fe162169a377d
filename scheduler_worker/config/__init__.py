"""The settings: what can be set, where it is read from, and what is wrong with it."""

from scheduler_worker.config.loading import LoadedSettings, load_database_url, load_settings, load_with_origins
from scheduler_worker.config.settings import Settings

__all__ = ["LoadedSettings", "Settings", "load_database_url", "load_settings", "load_with_origins"]
