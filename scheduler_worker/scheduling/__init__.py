"""APScheduler's extension points, filled in so that no fire is lost, merged or doubled."""
