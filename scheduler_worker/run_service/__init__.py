"""The Run Service: protobuf codec, gRPC client, and a mock server of the same contract."""

import os

# gRPC's core writes notes, such as a server's farewell, straight to standard error, where they would break a log of
# JSON lines. It reads this once, when it is first loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
# Processes are only ever started to run another program. gRPC's care for children that stay would wake its threads in
# them, where they have lost their files.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
