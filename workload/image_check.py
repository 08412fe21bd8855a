"""PURE: what a stack's image setting stands for now, what its last good run ran, and the line that changes it."""

from dataclasses import dataclass
from typing import Any, Literal

from workload.errors import BadInputError
from workload.image_reference import ImageReference, Manifest, parse
from workload.recorded_run import RecordedRun

SETTING = "rayImage"
State = Literal["same", "moved", "unproven", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One line, as a command and as it then stands in the stack's file."""

    command: str
    yaml: str

    def as_json(self) -> dict[str, Any]:
        return {"command": self.command, "yaml": self.yaml}


@dataclass(frozen=True, kw_only=True)
class ImageCheck:
    """`tag` is what the setting's tag points at, `pinned` what its digest is; None where it has none, or where the
    registry could not be asked, for a `reason` that `problem` puts into words. A `problem` may leave the `state` known.
    """

    stack: str
    project: str
    setting: ImageReference
    good: RecordedRun | None
    tag: Manifest | None = None
    pinned: Manifest | None = None
    reason: str = ""
    problem: str = ""

    @property
    def would_run(self) -> Manifest | None:
        return self.pinned if self.setting.digest else self.tag

    @property
    def state(self) -> State:
        """`same` where an `up` would run what the last good run ran; `unproven` where there is no good run."""
        if self._pin_is_proven:
            return "same"
        if self.would_run is None:
            return "unknown"
        if self.good is None:
            return "unproven"
        return "same" if self._ran(self.would_run) else "moved"

    @property
    def tag_moved(self) -> bool:
        """Whether the tag points at another image than the last good run's."""
        return self.tag is not None and self.good is not None and not self._ran(self.tag)

    @property
    def proven(self) -> ImageReference | None:
        """What the last good run ran, in the repository that it came from; None where that is no one image."""
        if self.good is None or len(self.good.image_digests) != 1:
            return None
        try:
            return parse(self.good.image or "").pinned(self.good.image_digests[0])
        except BadInputError:
            return None

    @property
    def elsewhere(self) -> bool:
        """Whether the last good run's image came from another repository than the setting's."""
        return self.proven is not None and self.proven.repository_name != self.setting.repository_name

    @property
    def keep(self) -> Change | None:
        """To the proven image, where the setting does not name it already."""
        if self.good is None or self.proven is None or self.proven.digest is None:
            return None
        held = self.setting.digest
        if held == self.proven.digest or (held and self.pinned and self.pinned.is_image(self.proven.digest)):
            return None
        return self._change(self.proven, f"proven by {self.good.id}")

    @property
    def update(self) -> Change | None:
        """To what the tag points at now, naming what it takes the place of."""
        if self.tag is None or self.setting.digest == self.tag.digest or (self.good and not self.tag_moved):
            return None
        old = ", ".join(self.good.image_digests) if self.good else self.setting.digest
        of = f" of {self.good.id}" if self.good else ""
        return self._change(self.setting.pinned(self.tag.digest), f"was {old}{of}" if old else "")

    def as_json(self) -> dict[str, Any]:
        good, keep, update = self.good, self.keep, self.update
        return {
            "stack": self.stack,
            "setting": str(self.setting),
            "state": self.state,
            "pinned": self.setting.digest is not None,
            "lastGood": good
            and {
                "run": good.id,
                "startedAt": good.started.isoformat() if good.started else None,
                "image": good.image,
                "digests": good.image_digests,
                "place": good.place,
            },
            "tag": _manifest(self.tag),
            "wouldRun": _manifest(self.would_run),
            "problem": {"reason": self.reason, "message": self.problem} if self.problem else None,
            "keep": keep and keep.as_json(),
            "update": update and update.as_json(),
        }

    @property
    def _pin_is_proven(self) -> bool:
        """What a digest names is known without its registry, unless that says that it has no such thing."""
        gone = self.reason == "absent" and self.pinned is None
        return self.good is not None and self.good.image_digests == [self.setting.digest] and not gone

    def _ran(self, manifest: Manifest) -> bool:
        digests = self.good.image_digests if self.good else []
        return bool(digests) and all(manifest.is_image(digest) for digest in digests)

    def _change(self, reference: ImageReference, comment: str) -> Change:
        return Change(
            command=f"pulumi config set {SETTING} {reference} -s {self.stack}",
            yaml=f"{self.project}:{SETTING}: {reference}{f'  # {comment}' if comment else ''}",
        )


def _manifest(manifest: Manifest | None) -> dict[str, Any] | None:
    if manifest is None:
        return None
    return {"digest": manifest.digest, "mediaType": manifest.media_type, "platforms": dict(manifest.platforms)}
