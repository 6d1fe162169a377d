"""A worker that turns Flyte 2 trigger rows into runs, exactly once per fire time."""
