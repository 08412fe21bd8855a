"""How long `efactl capacity` takes over 17 regions where every call takes 200 ms, beside one region's chain of calls.

    python -m benchmarks.capacity_survey [--regions 17] [--milliseconds 200] [--rounds 3]

AWS is a server on loopback in a process of its own, which waits that long before each answer; every region has quota
only by default, so that two of its calls depend on each other. Each measurement starts as a command does, with no
session and no client. The chain is one region's calls, one after another; "alone" is one region whose questions are put
at once, as they are for all: what the other regions add to it is this process's own work for each call.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from aiohttp import web

from capacity import aws
from capacity import survey as surveying
from capacity.answers import RegionAnswers
from capacity.at_once import AtOnce
from capacity.request import Request
from tools.standin import aws_wire
from tools.standin.aws_wire import Asked, Reply

REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1", "eu-west-1", "eu-west-2"),
    *("eu-west-3", "eu-central-1", "eu-north-1", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ap-northeast-1"),
    *("ap-northeast-2", "ap-northeast-3"),
)
TYPE = "g6.12xlarge"
# Of one region's chain.
MOST = 1.5
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def result(asked: Asked) -> Mapping[str, Any]:
    """What a region of three zones says."""
    names = [f"{asked.region}{letter}" for letter in "abc"]
    ids = [f"{asked.region}-az{number}" for number in (1, 2, 3)]
    facts = {
        "InstanceType": TYPE,
        "VCpuInfo": {"DefaultVCpus": 48},
        "GpuInfo": {"Gpus": [{"Name": "L4", "Count": 4}]},
        "NetworkInfo": {"EfaSupported": True, "EfaInfo": {"MaximumEfaInterfaces": 1}},
    }
    running = {
        "InstanceType": "g5.xlarge",
        "State": {"Name": "running"},
        "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2},
    }
    results: dict[str, Mapping[str, Any]] = {
        "GetCallerIdentity": {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/u", "UserId": "u"},
        "DescribeRegions": {"Regions": [{"RegionName": name, "OptInStatus": "opted-in"} for name in REGIONS]},
        "GetProducts": {"PriceList": [], "FormatVersion": "aws_v1"},
        "DescribeAvailabilityZones": {
            "AvailabilityZones": [
                {"ZoneName": name, "ZoneId": id, "State": "available", "ZoneType": "availability-zone"}
                for name, id in zip(names, ids, strict=True)
            ]
        },
        "DescribeInstanceTypeOfferings": {
            "InstanceTypeOfferings": [{"InstanceType": TYPE, "Location": name} for name in names]
        },
        "DescribeInstanceTypes": {"InstanceTypes": [facts]},
        "DescribeInstances": {"Reservations": [{"Instances": [running] * 5}]},
        "DescribeCapacityReservations": {"CapacityReservations": []},
        "GetSpotPlacementScores": {
            "SpotPlacementScores": [{"Region": asked.region, "AvailabilityZoneId": id, "Score": 3} for id in ids]
        },
        "GetAWSDefaultServiceQuota": {"Quota": {"QuotaCode": "L-DB2E81BA", "Value": 768.0}},
    }
    return results[asked.operation]


def serve(milliseconds: float) -> None:
    """Prints its port; ends with its standard input."""
    known: dict[tuple[str, str], Reply] = {}

    async def handle(request: web.Request) -> web.Response:
        began, body = time.monotonic(), await request.read()
        asked = aws_wire.read(request.method, request.path_qs, dict(request.headers), body)
        key = asked.operation, asked.region
        if key not in known:
            missing = asked.operation == "GetServiceQuota"
            known[key] = (
                aws_wire.refusal(asked, "NoSuchResourceException", "none")
                if missing
                else aws_wire.answer(asked, result(asked))
            )
        status, headers, content = known[key]
        await asyncio.sleep(max(0.0, milliseconds / 1000 - (time.monotonic() - began)))
        return web.Response(status=status, headers=headers, body=content)

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.to_thread(sys.stdin.read)

    asyncio.run(run())


class OneAfterAnother(AtOnce):
    """The same questions, each when the one before has been answered."""

    def run(self, what: Callable[[], None]) -> None:
        what()


def timed(regions: Sequence[str], *, order: type[AtOnce] = AtOnce) -> tuple[float, tuple[RegionAnswers, ...]]:
    """Seconds from nothing to all answers."""
    aws.forget()
    with patch.object(surveying, "AtOnce", order):
        began = time.monotonic()
        request = Request(instance_type=TYPE, regions=tuple(regions))
        answers = surveying.survey(request, lambda _line: None, patience=600.0)
        return time.monotonic() - began, answers


def measure(regions: Sequence[str], rounds: int) -> dict[str, Any]:
    timed(regions)  # the first time in a process reads the SDK's data from the disk, and fills the server's answers
    at_once, alone, chain = [], [], []
    for number in range(rounds):
        seconds, answers = timed(regions)
        at_once.append(seconds)
        assert len(answers) == len(regions)
        assert all(one.trouble is None for one in answers)
        region = regions[number % len(regions)]
        alone.append(timed([region])[0])
        chain.append(timed([region], order=OneAfterAnother)[0])
    one_by_one, same = timed(regions, order=OneAfterAnother)
    assert same == answers
    took = statistics.median(at_once)
    return {
        "all_at_once_s": round(took, 3),
        "all_one_after_another_s": round(one_by_one, 3),
        "one_region_chain_s": round(statistics.median(chain), 3),
        "one_region_alone_s": round(statistics.median(alone), 3),
        "of_the_chain": round(took / statistics.median(chain), 2),
        "of_one_alone": round(took / statistics.median(alone), 2),
        "times_faster": round(one_by_one / took, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--regions", type=int, default=len(REGIONS))
    parser.add_argument("--milliseconds", type=float, default=200.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(asked.milliseconds)
        return 0
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.capacity_survey", "--serve", "--milliseconds", str(asked.milliseconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            with patch.dict(os.environ, {**_ENVIRONMENT, "AWS_ENDPOINT_URL": url}):
                os.environ.pop("AWS_PROFILE", None)
                found = measure(REGIONS[: asked.regions], asked.rounds)
        finally:
            server.terminate()
    print(json.dumps(found, indent=2))
    return 0 if found["of_the_chain"] <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
