"""Runs a program without an engine and records what it registers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc

STACK_TYPE = "pulumi:pulumi:Stack"
Answer = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]]


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

    def __init__(self, answers: Mapping[str, Mapping[str, Any]], calls: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.calls = calls

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return f"{args.name}-id", {**args.inputs, **self.answers.get(args.typ, {})}

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token not in self.calls:
            raise AssertionError(f"a provider was asked: {args.token}")
        answer = self.calls[args.token]
        return {**args.args, **(answer(args.args) if callable(answer) else answer)}


class _Monitor(mocks.MockMonitor):
    def __init__(self, echo: _Echo) -> None:
        super().__init__(echo)
        self.requests: list[Any] = []

    def RegisterResource(self, request: Any) -> Any:
        self.requests.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


def run(
    program: Callable[[], Any],
    answers: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    calls: Mapping[str, Answer] | None = None,
    inside: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recording:
    """What `program` registers, all of it: only at its end can something be said to be absent.

    `answers` are outputs to add, by type token; `calls` what invokes answer, by token, or a function of their
    arguments; an Output that the program returns is waited for. `inside` are resources that remote components have
    made, by the URN that `reference` takes.
    """
    echo = _Echo(answers or {}, calls or {})
    monitor = _Monitor(echo)
    for urn, state in (inside or {}).items():
        monitor.resources[urn] = mocks.MockMonitor.ResourceRegistration(urn, f"{urn}-id", dict(state))
    pulumi.runtime.set_mocks(echo, project="ray-train-efa", stack="test", preview=False, monitor=monitor)
    pulumi.runtime.test(program)()  # type: ignore[no-untyped-call]
    return Recording(
        Registered(request.type, request.name, rpc.deserialize_properties(request.object), request)
        for request in monitor.requests
        if request.type != STACK_TYPE
    )


def reference(urn: str) -> dict[str, Any]:
    """An output that is a resource."""
    return {rpc._special_sig_key: rpc._special_resource_sig, "urn": urn, "id": f"{urn}-id", "packageVersion": ""}
