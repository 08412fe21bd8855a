"""Runs a program without an engine and records what it registers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc

STACK_TYPE = "pulumi:pulumi:Stack"


@dataclass(frozen=True)
class Registered:
    """One resource as the engine was told of it; `request` also has its dependencies and options."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    request: Any

    @property
    def parent(self) -> str:
        """Its parent's name."""
        return str(self.request.parent).rpartition("::")[2]

    @property
    def dependencies(self) -> set[str]:
        """Names of the resources it waits for."""
        return {urn.rpartition("::")[2] for urn in self.request.dependencies}


class Recording(list[Registered]):
    """In the order of registration."""

    def of_type(self, token: str) -> list[Registered]:
        return [resource for resource in self if resource.type == token]

    def one(self, token: str) -> Registered:
        found = self.of_type(token)
        assert len(found) == 1, f"{len(found)} of type {token}, among {[resource.name for resource in self]}"
        return found[0]


class _Echo(pulumi.runtime.Mocks):
    """Answers with the inputs, and with what a provider would add."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        self.answers = answers

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return f"{args.name}-id", {**args.inputs, **self.answers.get(args.typ, {})}

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        raise AssertionError(f"a provider was asked: {args.token}")


class _Monitor(mocks.MockMonitor):
    def __init__(self, echo: _Echo) -> None:
        super().__init__(echo)
        self.requests: list[Any] = []

    def RegisterResource(self, request: Any) -> Any:
        self.requests.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


def run(program: Callable[[], Any], answers: Mapping[str, Mapping[str, Any]] | None = None) -> Recording:
    """What `program` registers, all of it: only at its end can something be said to be absent.

    `answers` are outputs to add, by type token; an Output that the program returns is waited for.
    """
    echo = _Echo(answers or {})
    monitor = _Monitor(echo)
    pulumi.runtime.set_mocks(echo, project="ray-train-efa", stack="test", preview=False, monitor=monitor)
    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    return Recording(
        Registered(request.type, request.name, rpc.deserialize_properties(request.object), request)
        for request in monitor.requests
        if request.type != STACK_TYPE
    )
