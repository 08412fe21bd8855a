"""Reading the settings that limit what a stack may cost, and the zones it may move to."""

import re

from infra.config_reader import ConfigReader
from infra.eks_settings import EksSettings, GuardSettings, end_of

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")
_SHAPE = "a time in UTC like 2026-12-01T18:00:00Z"


def read_time(read: ConfigReader, key: str) -> str:
    """A time as text, "" where there is none that can be used."""
    value = read.matching(key, _TIME, _SHAPE)
    if not _TIME.fullmatch(value):
        return ""
    try:
        end_of(value)
    except ValueError:
        read.problem(key, value, f"is not {_SHAPE}")
        return ""
    return value


def read_guards(read: ConfigReader) -> GuardSettings:
    return GuardSettings(
        ttl_until=read_time(read, "ttlUntil"),
        zero_after_job=read.boolean("gpuScaleToZeroAfterJob"),
        max_hourly_usd=read.positive_number("maxHourlyUsd"),
    )


def check_guards(read: ConfigReader, settings: EksSettings) -> None:
    """Notes guards that could not hold, and fall-back zones that are none."""
    guards, gpu = settings.guards, settings.gpu
    if gpu.existing_group:
        what = f"is not for gpuExistingGroup {gpu.existing_group}, whose size is its owner's"
        if guards.ttl_until:
            read.problem("ttlUntil", guards.ttl_until, what)
        if guards.zero_after_job:
            read.problem("gpuScaleToZeroAfterJob", "true", what)
    for zone in gpu.fallback_zones:
        if settings.aws.region and not zone.startswith(settings.aws.region):
            what = f"is not a zone of aws:region {settings.aws.region}: another region is another stack"
            read.problem("gpuFallbackZones", zone, what)
        elif zone == gpu.zone:
            read.problem("gpuFallbackZones", zone, "is gpuZone itself: leave it out")
        elif settings.network.zones and zone not in settings.network.zones:
            read.problem("gpuFallbackZones", zone, f"is not among vpcZones {', '.join(settings.network.zones)}")
    if len(set(gpu.fallback_zones)) != len(gpu.fallback_zones):
        read.problem("gpuFallbackZones", ", ".join(gpu.fallback_zones), "names a zone twice")
