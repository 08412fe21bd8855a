"""The setting that says where records are kept a second time, and as whom AWS is asked there."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pulumi

from infra.config_reader import ConfigReader
from training.storage import S3_SCHEME
from workload.record_copies import is_no_place

SETTING = "recordsPath"
_OWN = "runs"


@dataclass(frozen=True, kw_only=True)
class RecordsSettings:
    """`path` empty: no copies. The rest is aws:profile, aws:region and the role of aws:assumeRoles, where set."""

    path: str
    profile: str
    region: str
    role_arn: str

    def inputs(self) -> dict[str, Any]:
        """For a resource that copies: `workload.record_copies.place_in` reads it."""
        return asdict(self) if self.path else {}


def read_records(read: ConfigReader) -> RecordsSettings:
    path = read.text(SETTING)
    in_s3 = path.startswith(S3_SCHEME)
    if wrong := is_no_place(path):
        read.problem(SETTING, path, wrong)
    elif path and not in_s3 and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(_OWN)):
        read.problem(SETTING, path, f"is inside {_OWN}/, where every run is kept already: name another place")
    of_aws = pulumi.Config("aws")
    roles = (of_aws.get_object("assumeRoles") or []) if in_s3 else []
    arns = [str(role.get("roleArn", "")) for role in roles if isinstance(role, dict)]
    return RecordsSettings(
        path=path.rstrip("/") or path,
        profile=(of_aws.get("profile") or "") if in_s3 else "",
        region=(of_aws.get("region") or "") if in_s3 else "",
        role_arn=next(iter(arns), ""),
    )
