"""The health check of the images: whom it asks, and what its exit code says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from placet.observability.probe import answers, main, own_url
from placet.testkit.ports import free_port


class Service(BaseHTTPRequestHandler):
    """Ready at `/readyz`, not ready anywhere else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 503)
        self.end_headers()
        self.wfile.write(b'{"ready": "?"}')

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_own_address_with_a_health_port_is_that_port() -> None:
    assert own_url({"PLACET_HEALTH_PORT": "8081", "PLACET_GATEWAY_PORT": "8080"}) == "http://127.0.0.1:8081/readyz"


def test_own_address_with_the_health_port_off_is_the_gateways() -> None:
    assert own_url({"PLACET_HEALTH_PORT": "0", "PLACET_GATEWAY_PORT": "8080"}) == "http://127.0.0.1:8080/readyz"


def test_own_address_with_no_port_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="PLACET_HEALTH_PORT"):
        own_url({"PLACET_HEALTH_PORT": "0"})


def test_probe_of_a_ready_service_exits_0(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLACET_HEALTH_PORT", str(port))
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("200 ")


def test_probe_of_a_service_that_is_not_ready_exits_1_and_says_what_it_answered(
    port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"http://127.0.0.1:{port}/other"]) == 1
    assert capsys.readouterr().err.startswith('503 {"ready"')


def test_probe_with_nothing_to_ask_exits_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACET_HEALTH_PORT", raising=False)
    monkeypatch.delenv("PLACET_GATEWAY_PORT", raising=False)
    assert main([]) == 2


def test_answer_of_a_port_where_nobody_listens_is_not_ready() -> None:
    ready, answer = answers(f"http://127.0.0.1:{free_port()}/readyz")
    assert not ready
    assert "ConnectionRefusedError" in answer
