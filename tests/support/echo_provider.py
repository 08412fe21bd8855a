"""A resource provider that takes everything and echoes it, for tests of what an engine tells others about a program."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc


class _Echo(provider_pb2_grpc.ResourceProviderServicer):
    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="99.0.0")

    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse()

    def Configure(self, request: Any, context: Any) -> Any:
        return provider_pb2.ConfigureResponse(supportsPreview=True, acceptSecrets=True, acceptResources=True)

    def Check(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request: Any, context: Any) -> Any:
        made = "" if request.preview else request.urn.rpartition("::")[2]
        return provider_pb2.CreateResponse(id=made, properties=request.properties)

    def Diff(self, request: Any, context: Any) -> Any:
        same = request.old_inputs == request.news
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_NONE if same else provider_pb2.DiffResponse.DIFF_SOME
        )

    def Update(self, request: Any, context: Any) -> Any:
        return provider_pb2.UpdateResponse(properties=request.news)

    def Delete(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()


@contextmanager
def echo_provider() -> Iterator[int]:
    """Its port, for PULUMI_DEBUG_PROVIDERS."""
    server = grpc.server(futures.ThreadPoolExecutor(8))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(_Echo(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()
