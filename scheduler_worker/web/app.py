"""The pages of the HTTP port: `/healthz`, `/readyz` and `/metrics`.

Decides status codes: 200 for yes, 503 for no. Must never do anything but look.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scheduler_worker.web.status import StatusSource

_OK = 200
_UNAVAILABLE = 503
_FRESH = {"Cache-Control": "no-store"}


def status_app(status: StatusSource, registry: CollectorRegistry, *, clock: Callable[[], datetime]) -> Starlette:
    """Return the web application that shows `status` and the metrics of `registry`."""

    async def healthz(_request: Request) -> Response:
        health = status.health(clock())
        return _answer(health.healthy, {"healthy": health.healthy, "reasons": health.reasons})

    async def readyz(_request: Request) -> Response:
        readiness = status.readiness(clock())
        return _answer(
            readiness.ready,
            {"ready": readiness.ready, "role": readiness.role, "reasons": readiness.reasons, **readiness.details},
        )

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"Content-Type": content_type, **_FRESH})

    return Starlette(
        routes=[
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]
    )


def _answer(good: bool, body: dict[str, Any]) -> Response:  # noqa: FBT001 - the answer itself
    return JSONResponse(body, status_code=_OK if good else _UNAVAILABLE, headers=_FRESH)
