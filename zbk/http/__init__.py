"""The HTTP stack of zbk: starlette applications on uvicorn, in one bounded thread.

``serve`` binds an address and serves an application there. ``connection`` holds the bounds of a
connection, ``guard`` the checks of a request that every application needs. A process that serves
no HTTP does not import this package, because asyncio, uvicorn and starlette cost it 100 ms.

Read ``server`` first. Routes do not belong here: they are in ``metrics``, ``admin`` and
``console``.
"""

from zbk.http.server import HttpServer, serve

__all__ = ["HttpServer", "serve"]
