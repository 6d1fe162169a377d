"""The stand of the integration tests."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog

from tests.integration.stand import Stand
from tests.integration.stand import stand as open_stand


@pytest.fixture
async def stand(database_url: str) -> AsyncIterator[Stand]:
    """A database, a Run Service and a worker that is not started yet; its clock stands at the start of this minute."""
    async with open_stand(database_url) as made:
        yield made


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """Show warnings and worse: a failing test's output is read by people."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    yield
    structlog.reset_defaults()
