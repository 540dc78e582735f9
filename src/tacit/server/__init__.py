"""The service: analysts ask private questions over HTTP, curators publish, officers answer for it.

`Service` is everything that the API and the pages do, as plain calls; `application` puts HTTP around it. `service.yaml`
(`load`) says which data sets there are, for which purposes, for whom. It stands on `tables.Session`, `ledger.Ledger` and
release jobs, and has no second way to do what they do.
"""

# Imports inside functions: FastAPI, uvicorn, authlib and httpx are in the extra `server`.

from typing import TYPE_CHECKING

from tacit.lazy import lazily

if TYPE_CHECKING:
    from tacit.server.access import TABLE, Caller
    from tacit.server.api.app import application
    from tacit.server.config import Configuration, load, parse
    from tacit.server.desk import Service
    from tacit.server.errors import ConfigurationError, ServiceError
    from tacit.server.start import demonstration, serve, sign_in_link

__getattr__, __dir__ = lazily(
    __name__,
    {
        "access": ("TABLE", "Caller"),
        "api.app": ("application",),
        "config": ("Configuration", "load", "parse"),
        "desk": ("Service",),
        "errors": ("ConfigurationError", "ServiceError"),
        "start": ("demonstration", "serve", "sign_in_link"),
    },
)

__all__ = ["TABLE", "Caller", "Configuration", "ConfigurationError", "Service", "ServiceError", "application", "demonstration"]
__all__ += ["load", "parse", "serve", "sign_in_link"]
