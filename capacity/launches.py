"""PURE: whether a node group's launches are worth waiting for, from its scaling activities and its health."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capacity.cause import Cause, Sorted
from capacity.causes import cause_of, in_text

# Of an Auto Scaling group's activities: docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Activity.html
_FAILED = ("Failed", "Cancelled")
# What a group may get over by itself.
_PASSES = (Cause.THROTTLED, Cause.UNAVAILABLE, Cause.UNKNOWN)

Activities = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why nodes do not come: `text` is AWS's own."""

    sorted: Sorted
    text: str


def of_health(issues: Sequence[Mapping[str, Any]]) -> Trouble | None:
    """From DescribeNodegroup's `health.issues`: EKS tells them late, and means them."""
    for issue in issues:
        found = cause_of(str(issue.get("code", "")), str(issue.get("message", "")))
        if found.cause not in _PASSES:
            return Trouble(sorted=found, text=str(issue.get("message", "")))
    return None


def of_activities(activities: Activities, *, known: Collection[str]) -> Trouble | None:
    """The newest activity's, where it failed for a reason that waiting does not mend, and none is under way. `known`
    are ids from before.

    A look may fall between a failure and a try that succeeds: what two looks in a row say is certain.
    """
    new = [one for one in activities if one["ActivityId"] not in known]
    if not new or any(one["StatusCode"] not in (*_FAILED, "Successful") for one in new):
        return None
    newest = max(new, key=lambda one: one["StartTime"])
    text = str(newest.get("StatusMessage", ""))
    if newest["StatusCode"] not in _FAILED or not text:
        return None
    found = in_text(text)
    if found is None or found.cause in _PASSES:
        return None
    return Trouble(sorted=found, text=text)
