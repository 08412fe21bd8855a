"""CrossGuard pack: `pulumi preview --policy-pack policy`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy import (  # type: ignore[import-not-found,unused-ignore]
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError  # type: ignore[import-not-found,unused-ignore]
from rules import RESOURCE_RULES, STACK_RULES  # type: ignore[import-not-found]
from rules.resources import UNKNOWN, Resource, ResourceRule, StackRule  # type: ignore[import-not-found]


def plain(holder: Any, key: Any) -> Any:
    """The value under a key without the SDK's proxies, whose unknown values raise when they are looked at."""
    try:
        value = holder[key]
    except UnknownValueError:
        return UNKNOWN
    if isinstance(value, Mapping):
        return {name: plain(value, name) for name in value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(value, index) for index in range(len(value))]
    return value


def all_plain(props: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(props, name) for name in props}


def resource_policy(rule: ResourceRule) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type in rule.types:
            for message in rule.check(Resource(args.resource_type, args.name, all_plain(args.props), args.urn)):
                report(f"{args.name}: {message}", args.urn)

    return ResourceValidationPolicy(rule.name, rule.description, validate)


def stack_policy(rule: StackRule) -> StackValidationPolicy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        refs: dict[str, dict[str, list[Resource]]] = {one.urn: {} for one in args.resources}
        found = {
            one.urn: Resource(one.resource_type, one.name, all_plain(one.props), one.urn, refs[one.urn])
            for one in args.resources
        }
        for one in args.resources:
            for name, sources in one.property_dependencies.items():
                refs[one.urn][name] = [found[source.urn] for source in sources]
        for resource, message in rule.check(list(found.values())):
            report(f"{resource.name}: {message}", resource.urn)

    return StackValidationPolicy(rule.name, rule.description, validate)


PolicyPack(
    name="ray-train-efa",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[*map(resource_policy, RESOURCE_RULES), *map(stack_policy, STACK_RULES)],
)
