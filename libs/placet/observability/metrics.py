"""Metrics in the Prometheus format. Names and labels live here, so that dashboards have one place to look."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

RPC_SECONDS = Histogram("placet_rpc_seconds", "Time to serve one command", ["command", "code"], buckets=_SECONDS)
RPC_INFLIGHT = Gauge("placet_rpc_inflight", "Commands being served")
APPENDS = Counter("placet_appends_total", "Appends to event streams", ["owner", "outcome"])
QUEUE_MESSAGES = Counter("placet_queue_messages_total", "Messages taken from durable consumers", ["durable", "outcome"])
POLICY_DECISIONS = Counter("placet_policy_decisions_total", "Decisions by effect", ["effect", "code"])
TOOL_CALLS = Counter("placet_tool_calls_total", "Tool calls by end", ["tool", "status"])
EFFECTS = Counter("placet_effects_total", "Ledger outcomes", ["tool", "state"])
PROPOSALS = Counter("placet_proposals_total", "Completed proposals", ["finish_reason"])
SECURITY_EVENTS = Counter("placet_security_events_total", "Security events raised", ["kind"])
SEALED_EVENTS = Counter("placet_sealed_events_total", "Events sealed into the tamper-evident record", ["stream"])
SSE_CLIENTS = Gauge("placet_sse_clients", "Connected event-stream clients")
RUNS = Counter("placet_runs_total", "Completed runs", ["finish_reason"])
CITATIONS_REMOVED = Counter("placet_citations_removed_total", "Numbers in answers that named no evidence")
HTTP_SECONDS = Histogram(
    "placet_http_seconds", "Time to the first byte of an answer", ["method", "route", "status"], buckets=_SECONDS
)
