"""Whether the service runs, and whether it can work: for supervisors. They tell nothing about data or people."""

from __future__ import annotations

import sqlalchemy as sa
from fastapi import APIRouter

from tacit.server.api.calling import Serving

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="health")
def health() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="ready")
def ready(service: Serving) -> dict[str, str]:
    """The book and the service's tables can be read."""
    with service.database.read() as connection:
        connection.execute(sa.text("SELECT 1"))
    service.ledger.head()
    return {"status": "ok"}
