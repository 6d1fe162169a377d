"""Which texts are addresses."""

import pytest

from scheduler_worker.domain.service_address import ServiceAddress, parse_listen_address, parse_run_service_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("runs:8090", ServiceAddress("runs:8090", secure=False)),
        ("127.0.0.1:8090", ServiceAddress("127.0.0.1:8090", secure=False)),
        ("[::1]:8090", ServiceAddress("[::1]:8090", secure=False)),
        (" runs.flyte.svc.cluster.local:80\n", ServiceAddress("runs.flyte.svc.cluster.local:80", secure=False)),
        ("http://runs:8090", ServiceAddress("runs:8090", secure=False)),
        ("http://runs:8090/", ServiceAddress("runs:8090", secure=False)),
        ("HTTP://Runs", ServiceAddress("runs:80", secure=False)),
        ("https://runs.example.org", ServiceAddress("runs.example.org:443", secure=True)),
        ("https://[2001:db8::1]:8443", ServiceAddress("[2001:db8::1]:8443", secure=True)),
    ],
)
def test_an_address_is_read(url: str, address: ServiceAddress) -> None:
    assert parse_run_service_url(url) == address


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("", "names no usable host"),
        ("runs", "names no port"),
        ("runs:", "names no port"),
        ("runs:0", "names no port"),
        ("runs:http", "is not an address"),
        ("runs:70000", "is not an address"),
        (":8090", "names no usable host"),
        ("::1:8090", "is not an address"),
        ("[::1:8090", "is not an address"),
        ("two words:80", "names no usable host"),
        ("http://runs:80/api", "something after the port"),
        ("http://runs:80?x=1", "something after the port"),
        ("http:///path", "something after the port"),
        ("grpc://runs:80", "unknown scheme 'grpc'"),
        ("dns:///runs:80", "unknown scheme"),
    ],
)
def test_what_is_no_address_is_refused_with_a_remedy(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as caught:
        parse_run_service_url(url)
    assert "write HOST:PORT" in str(caught.value)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="password") as caught:
        parse_run_service_url("https://me:hunter2@runs:443")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("url", "host"), [("runs:80", "runs"), ("[::1]:80", "::1")])
def test_the_host_stands_alone(url: str, host: str) -> None:
    assert parse_run_service_url(url).host == host


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::]:8090", ("[::]", 8090)), ("localhost:65535", ("localhost", 65535))],
)
def test_a_listen_address_is_read(listen: str, address: tuple[str, int]) -> None:
    assert parse_listen_address(listen) == address


@pytest.mark.parametrize("listen", ["", "8090", ":8090", "host:", "host:http", "host:65536", "host:-1", "::1:80"])
def test_what_is_no_listen_address_is_refused_with_a_remedy(listen: str) -> None:
    with pytest.raises(ValueError, match=r"write HOST:PORT, such as 127\.0\.0\.1:8090"):
        parse_listen_address(listen)
