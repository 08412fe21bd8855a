"""Looks at a node group beside an `up` that waits for it: EKS says for half an hour nothing of a launch that fails."""

import threading
from collections.abc import Callable
from typing import Any

from capacity import launches
from capacity.aws import AS_ENVIRONMENT, AWS_ERRORS, Access, AwsRefusedError, client, words_of
from capacity.launches import Trouble

# Auto Scaling tells a failed launch within seconds; two looks in a row must agree.
INTERVAL_S = 10.0

Say = Callable[[str], None]


class LaunchWatch:
    """Watches one node group in a thread from `start` to `stop`; `trouble` is what makes its wait hopeless.

    `another`: a group of that name that is there at the first look is about to go, and says nothing of its successor.
    """

    def __init__(
        self,
        *,
        cluster: str,
        group: str,
        region: str,
        say: Say,
        another: bool = False,
        access: Access = AS_ENVIRONMENT,
    ) -> None:
        self.trouble: Trouble | None = None
        self._another, self._old = another, ""
        self._cluster, self._group, self._region, self._access, self._say = cluster, group, region, access, say
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._known: set[str] | None = None
        self._suspected, self._said = False, ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()

    def _run(self) -> None:
        while not self._end.is_set() and self.trouble is None:
            try:
                self.look()
            except (*AWS_ERRORS, AwsRefusedError) as error:
                # The engine's own wait goes on; it only ends later.
                self._note(f"the launch of {self._group} cannot be watched: {words_of(error)}")
            except (LookupError, TypeError, AttributeError) as error:
                self._note(f"the launch of {self._group} cannot be watched: an answer cannot be read ({error!r})")
            self._end.wait(INTERVAL_S)

    def look(self) -> None:
        """One look, which may find the trouble. Activities from before the first look do not count."""
        first, group = self._known is None, self._described()
        if first and self._another and group:
            self._old = str(group["nodegroupArn"])
        if group and group["nodegroupArn"] == self._old:
            group = None
        status = group["status"] if group else ""
        scaling = [one["name"] for one in (group or {}).get("resources", {}).get("autoScalingGroups", [])]
        activities = [one for name in scaling for one in self._activities(name)]
        if self._known is None:
            # A group that is not there yet, or is being made, has no past.
            self._known = set() if status in ("", "CREATING") else {one["ActivityId"] for one in activities}
        if status in ("CREATING", "CREATE_FAILED"):
            self.trouble = launches.of_health((group or {}).get("health", {}).get("issues", []))
        found = launches.of_activities(activities, known=self._known)
        if found is not None:
            self._note(f"no nodes for {self._group} yet: {found.text}")
            self.trouble = self.trouble or (found if self._suspected else None)
        self._suspected = found is not None

    def _described(self) -> dict[str, Any] | None:
        eks = client("eks", self._region, access=self._access)
        try:
            found: dict[str, Any] = eks.describe_nodegroup(clusterName=self._cluster, nodegroupName=self._group)
        except eks.exceptions.ResourceNotFoundException:
            return None
        return dict(found["nodegroup"])

    def _activities(self, name: str) -> list[dict[str, Any]]:
        """The newest are on the first page."""
        scaling = client("autoscaling", self._region, access=self._access)
        found: list[dict[str, Any]] = scaling.describe_scaling_activities(AutoScalingGroupName=name)["Activities"]
        return found

    def _note(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)
