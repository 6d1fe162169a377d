"""The connection to the Run Service.

Decides how it is opened, how it comes back after a break, and how large a message may be. Must never send anything.
"""

from importlib.metadata import version

import grpc
import grpc.aio

from scheduler_worker.domain.service_address import ServiceAddress

# gRPC shifts each pause by up to 20 % either way, so that this keeps attempts at least a second apart, and a service
# that comes back is met within 1.6 s. Initial and longest pause are equal: the pause must not grow in a long outage.
_RECONNECT_PAUSE_MS = 1300
# An attempt that gets no answer at all is given up after this; a busy host may take a while to shake hands.
_CONNECT_TIMEOUT_MS = 5000
# While calls are open, a silent connection is probed this often. Servers commonly punish probes much more frequent.
_KEEPALIVE_INTERVAL_MS = 30_000
# Unanswered probes and unacknowledged bytes (TCP_USER_TIMEOUT) close the connection after this.
_KEEPALIVE_TIMEOUT_MS = 10_000
# By default gRPC looks a name up at most every 30 s; a service that moved would stay lost for that long.
_LOOKUP_PAUSE_MS = 1000
# Inputs may be large; an answer may describe a run with all its inputs.
_LARGEST_MESSAGE_BYTES = 64 * 1024 * 1024

_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_LOOKUP_FAILED = "errors resolving"


def open_channel(address: ServiceAddress) -> grpc.aio.Channel:
    """Return a channel that connects on its first call and, from then on, again whenever it breaks."""
    options = [
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_PAUSE_MS),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_PAUSE_MS),
        ("grpc.min_reconnect_backoff_ms", _CONNECT_TIMEOUT_MS),
        ("grpc.dns_min_time_between_resolutions_ms", _LOOKUP_PAUSE_MS),
        ("grpc.keepalive_time_ms", _KEEPALIVE_INTERVAL_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.max_send_message_length", _LARGEST_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _LARGEST_MESSAGE_BYTES),
        # Sending twice is decided by the caller, never in secret.
        ("grpc.enable_retries", 0),
        ("grpc.primary_user_agent", f"scheduler-worker/{version('scheduler-worker')}"),
        # No proxy reaches this host's own loopback interface.
        ("grpc.enable_http_proxy", 0 if address.host in _LOOPBACK_HOSTS else 1),
        # A channel that replaces another must not inherit its connection's pause.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if address.secure:
        return grpc.aio.secure_channel(address.target, grpc.ssl_channel_credentials(), options=options)
    return grpc.aio.insecure_channel(address.target, options=options)


def is_lookup_failure(error: grpc.aio.AioRpcError) -> bool:
    """Say whether the call failed because the service's host name is unknown at the moment.

    gRPC tells this apart in its words only.
    """
    return error.code() is grpc.StatusCode.UNAVAILABLE and _LOOKUP_FAILED in (error.details() or "")
