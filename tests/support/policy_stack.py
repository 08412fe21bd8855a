"""A small stack that every rule of the policy pack lets pass.

Resources are data, so that rules see them without an engine and an engine without a cloud. `{"$id": NAME}` is another
resource's id.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from policy.rules.resources import UNKNOWN, Resource

Stack = dict[str, dict[str, Any]]
ITSELF = {"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_IMAGE = "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1"
AMOUNTS = {"cpu": "40", "memory": "160Gi", "nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "1"}
_PLACE = {"name": "ray", "namespace": "ray-train"}

GOOD: Stack = {
    "private": {
        "type": "aws:ec2/subnet:Subnet",
        "props": {"availabilityZone": "us-west-2b", "cidrBlock": "10.20.0.0/18", "mapPublicIpOnLaunch": False},
    },
    "elsewhere": {
        "type": "aws:ec2/subnet:Subnet",
        "props": {"availabilityZone": "us-west-2a", "cidrBlock": "10.20.64.0/18", "mapPublicIpOnLaunch": False},
    },
    "efa": {
        "type": "aws:ec2/securityGroup:SecurityGroup",
        "props": {"description": "EFA", "ingress": [ITSELF], "egress": [ITSELF]},
    },
    "https": {
        "type": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        "props": {
            "securityGroupId": {"$id": "efa"},
            "ipProtocol": "tcp",
            "fromPort": 443,
            "toPort": 443,
            "cidrIpv4": "10.20.0.0/16",
        },
    },
    "capacity": {
        "type": "aws:ec2/capacityReservation:CapacityReservation",
        "props": {
            "instanceType": "g6.12xlarge",
            "instanceCount": 2,
            "endDateType": "limited",
            "endDate": "2027-01-31T18:00:00Z",
        },
    },
    "template": {
        "type": "aws:ec2/launchTemplate:LaunchTemplate",
        "props": {
            "networkInterfaces": [
                {
                    "interfaceType": "efa",
                    "associatePublicIpAddress": "false",
                    "securityGroups": [{"$id": "efa"}],
                }
            ],
            "metadataOptions": {"httpTokens": "required"},
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true", "volumeSize": 200}}],
        },
    },
    "gpu": {
        "type": "aws:eks/nodeGroup:NodeGroup",
        "props": {
            "amiType": "AL2023_x86_64_NVIDIA",
            "subnetIds": [{"$id": "private"}],
            "labels": {"role": "gpu-worker"},
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
            "launchTemplate": {"id": {"$id": "template"}},
        },
    },
    "control-plane": {
        "type": "aws:eks/cluster:Cluster",
        "props": {
            "vpcConfig": {"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.7/32"]},
            "encryptionConfig": {"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:us-west-2:1:key/k"}},
        },
    },
    "addon": {
        "type": "aws:eks/addon:Addon",
        "props": {"addonName": "vpc-cni", "addonVersion": "v1.20.4-eksbuild.1"},
    },
    "bucket": {"type": "aws:s3/bucket:Bucket", "props": {"forceDestroy": True}},
    "bucket-encryption": {
        "type": "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration",
        "props": {
            "bucket": {"$id": "bucket"},
            "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}],
        },
    },
    "bucket-block": {
        "type": "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        "props": {
            "bucket": {"$id": "bucket"},
            "blockPublicAcls": True,
            "blockPublicPolicy": True,
            "ignorePublicAcls": True,
            "restrictPublicBuckets": True,
        },
    },
    "lustre": {
        "type": "aws:fsx/lustreFileSystem:LustreFileSystem",
        "props": {"deploymentType": "PERSISTENT_2", "storageCapacity": 1200},
    },
    "plugin": {
        "type": "kubernetes:helm.sh/v3:Release",
        "props": {
            "chart": "nvidia-device-plugin",
            "version": "0.20.0",
            "repositoryOpts": {"repo": "https://nvidia.github.io/k8s-device-plugin"},
            "values": {"tolerations": [_TOLERATION]},
        },
    },
    "pull": {
        "type": "kubernetes:apps/v1:DaemonSet",
        "props": {
            "metadata": {"name": "image-pull", "namespace": "ray-train"},
            "spec": {
                "template": {
                    "spec": {
                        "nodeSelector": {"role": "gpu-worker"},
                        "tolerations": [_TOLERATION],
                        "containers": [{"name": "pull", "image": _IMAGE}],
                    }
                }
            },
        },
    },
    "policy": {
        "type": "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "props": {
            "metadata": {"name": "ray-only-itself", "namespace": "ray-train"},
            "spec": {
                "podSelector": {"matchLabels": {"ray.io/cluster": "ray"}},
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {"matchLabels": {"ray.io/cluster": "ray"}}}]}],
            },
        },
    },
    "service": {
        "type": "kubernetes:core/v1:Service",
        "props": {"metadata": {"name": "metrics", "namespace": "ray-train"}, "spec": {"ports": [{"port": 80}]}},
    },
    "ray": {
        "type": "kubernetes:ray.io/v1:RayCluster",
        "props": {
            "metadata": _PLACE,
            "spec": {
                "headGroupSpec": {
                    "serviceType": "ClusterIP",
                    "template": {"spec": {"containers": [{"name": "ray-head", "image": _IMAGE}]}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "gpu-workers",
                        "template": {
                            "spec": {
                                "nodeSelector": {"role": "gpu-worker"},
                                "tolerations": [_TOLERATION],
                                "containers": [
                                    {
                                        "name": "ray-worker",
                                        "image": _IMAGE,
                                        "env": [
                                            {"name": "FI_PROVIDER", "value": "efa"},
                                            {"name": "NCCL_NET_PLUGIN", "value": "ofi"},
                                        ],
                                        "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
                                    }
                                ],
                            }
                        },
                    }
                ],
            },
        },
    },
}

WORKER = ("spec", "workerGroupSpecs", 0, "template", "spec")
CONTAINER = (*WORKER, "containers", 0)


def as_seen(stack: Stack, ids: Mapping[str, Any] | None = None) -> list[Resource]:
    """As rules see it; `ids` are what other resources' ids read as, unknown ones by default."""
    refs: dict[str, dict[str, list[Resource]]] = {name: {} for name in stack}
    known = ids or {}

    def resolved(value: Any) -> Any:
        if isinstance(value, dict):
            if "$id" in value:
                return known.get(value["$id"], UNKNOWN)
            return {key: resolved(one) for key, one in value.items()}
        return [resolved(one) for one in value] if isinstance(value, list) else value

    found = {
        name: Resource(one["type"], name, resolved(one["props"]), f"urn:{name}", refs[name])
        for name, one in stack.items()
    }
    for name, one in stack.items():
        for prop, value in one["props"].items():
            refs[name][prop] = [found[other] for other in named(value)]
    return list(found.values())


def named(value: Any) -> Iterator[str]:
    """The resources whose ids are somewhere in a value."""
    if isinstance(value, dict):
        if "$id" in value:
            yield value["$id"]
        for one in value.values():
            yield from named(one)
    elif isinstance(value, list):
        for one in value:
            yield from named(one)
