"""OpenTelemetry traces of appends, reads, syncs and recoveries, through its API package only.

``setup`` decides whether a client or a bookie traces; without opentelemetry-api there is nothing to
import, and the answer is ``None``. ``client_spans`` makes the spans of calls, ``request_spans``
those of requests at a bookie, ``span`` is one of either, which never raises. Between them a request
carries the W3C traceparent of its call (``zbk.wire.messages.TracedRequest``).

Read ``setup`` first, then ``span``.
"""
