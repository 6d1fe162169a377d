"""The pure core: schedules, owed times, reconciling. No I/O, no clock, no logging, no third party."""
