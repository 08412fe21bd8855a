"""IAM: roles, policies, identity providers."""

import json
import secrets
from typing import Any

from tools.standin import tokens
from tools.standin.errors import AwsError
from tools.standin.kinds import Call, Kind, Refers

_CREATED = "2026-01-01T00:00:00Z"
# The managed policies that a program like this one can want.
_MANAGED = {
    "AmazonEKSClusterPolicy",
    "AmazonEKSVPCResourceController",
    "AmazonEKSServicePolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKSWorkerNodeMinimalPolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
    "AmazonFSxFullAccess",
    "AmazonS3ReadOnlyAccess",
    "CloudWatchAgentServerPolicy",
    "service-role/AmazonEBSCSIDriverPolicy",
    "service-role/AmazonEBSCSIDriverPolicyV2",
    "service-role/AmazonEFSCSIDriverPolicy",
}
_OF_ROLE = Refers(path="role", token=tokens.ROLE, missing="NoSuchEntity", patient=True)


def _is_policy(call: Call) -> None:
    for name in ("policy", "assumeRolePolicy"):
        text = call.inputs.get(name)
        try:
            statements = json.loads(text)["Statement"] if isinstance(text, str) else []
        except (ValueError, KeyError, TypeError):
            raise AwsError("MalformedPolicyDocument", f"{name} is no policy document: {text}") from None
        for statement in statements if isinstance(statements, list) else [statements]:
            if statement.get("Effect") not in ("Allow", "Deny") or "Action" not in statement.keys() | {"NotAction"}:
                if "NotAction" in statement and statement.get("Effect") in ("Allow", "Deny"):
                    continue
                raise AwsError("MalformedPolicyDocument", f"a statement without Effect or Action: {statement}")


def _identity(what: str) -> Any:
    def outputs(call: Call) -> dict[str, Any]:
        path = call.inputs.get("path", "/")
        arn = call.arn("iam", f"{what}{path}{call.inputs['name']}", region=False)
        return {"arn": arn, "createDate": _CREATED, "uniqueId": f"AROA{secrets.token_hex(8).upper()}"}

    return outputs


def _policy(call: Call) -> dict[str, Any]:
    return {"arn": call.id, "policyId": f"ANPA{secrets.token_hex(8).upper()}", "attachmentCount": 0}


def _policy_arn(call: Call) -> str:
    return call.arn("iam", f"policy{call.inputs.get('path', '/')}{call.inputs['name']}", region=False)


def _attachment(call: Call) -> None:
    arn = call.inputs["policyArn"]
    owner, _, name = arn.partition(":policy/")
    known = name in _MANAGED if owner == "arn:aws:iam::aws" else call.records.get(tokens.POLICY, arn) is not None
    if not known:
        raise AwsError("NoSuchEntity", f"Policy {arn} does not exist or is not attachable.")


def _keep_role(call: Call) -> None:
    """IAM keeps a role that policies hang on, unless the provider takes them off first."""
    if call.old and call.old.inputs.get("forceDetachPolicies"):
        return
    for token in (tokens.ROLE_POLICY_ATTACHMENT, tokens.ROLE_POLICY):
        if any(entry.inputs.get("role") == call.id for entry in call.records.all(token)):
            raise AwsError("DeleteConflict", "Cannot delete entity, must detach all policies first.")


KINDS = (
    Kind(
        token=tokens.ROLE,
        service="IAM",
        new_id=lambda call: str(call.inputs["name"]),
        outputs=_identity("role"),
        refuse=_is_policy,
        keep=_keep_role,
        computed=("managedPolicyArns", "inlinePolicies"),
        defaults={"path": "/", "maxSessionDuration": 3600, "forceDetachPolicies": False},
        fixed=("name", "namePrefix", "path"),
        named="name",
        exists="EntityAlreadyExists",
        regional=False,
    ),
    Kind(
        token=tokens.ROLE_POLICY,
        service="IAM",
        new_id=lambda call: f"{call.inputs['role']}:{call.inputs['name']}",
        refuse=_is_policy,
        fixed=("name", "namePrefix", "role"),
        named="name",
        refers=(_OF_ROLE,),
        regional=False,
    ),
    Kind(
        token=tokens.ROLE_POLICY_ATTACHMENT,
        service="IAM",
        new_id=lambda call: f"{call.inputs['role']}/{call.inputs['policyArn']}",
        refuse=_attachment,
        fixed=("role", "policyArn"),
        # Attaching what is attached changes nothing in IAM: two declarations of it are found out at the first deletion.
        exists="",
        refers=(_OF_ROLE,),
        regional=False,
    ),
    Kind(
        token=tokens.POLICY,
        service="IAM",
        new_id=_policy_arn,
        outputs=_policy,
        refuse=_is_policy,
        defaults={"path": "/"},
        fixed=("name", "namePrefix", "path", "description"),
        named="name",
        exists="EntityAlreadyExists",
        regional=False,
    ),
    Kind(
        token=tokens.OIDC_PROVIDER,
        service="IAM",
        new_id=lambda call: call.arn(
            "iam", f"oidc-provider/{str(call.inputs['url']).removeprefix('https://')}", region=False
        ),
        outputs=lambda call: {"arn": call.id},
        computed=("thumbprintLists",),
        fixed=("url", "clientIdLists"),
        exists="EntityAlreadyExists",
        regional=False,
    ),
)
