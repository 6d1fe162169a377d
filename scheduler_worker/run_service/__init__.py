"""The Run Service: protobuf codec, gRPC client, and a mock server of the same contract."""
