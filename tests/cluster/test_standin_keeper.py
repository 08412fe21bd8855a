"""The cluster that stands in for EKS outlives the command that starts it, and ends for good."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.bed import leftovers
from tools.standin import bed_process
from tools.standin.bed_nodes import BED_FILE, BedFile
from tools.standin.place import Place

pytestmark = pytest.mark.full

POD_TOKEN = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place.of("dev", tmp_path)
    place.make()
    try:
        yield place
    finally:
        bed_process.end(place)


def told(place: Place) -> BedFile:
    return BedFile(**json.loads((place.account / BED_FILE).read_text()))


def test_a_bed_is_there_after_its_start_and_gone_after_its_end(place: Place) -> None:
    bed_process.start(place)
    keeper = bed_process.running(place)
    assert keeper is not None
    assert keeper.pid != 0
    assert told(place).api().is_ready()
    assert told(place).api().list("/api/v1/nodes") == [], "nodes come with node groups"
    bed = leftovers.bed_id(place.bed) or ""
    bed_process.end(place)
    assert bed_process.running(place) is None
    assert not (place.account / BED_FILE).exists()
    assert leftovers.namespaces(bed) == []


def test_what_a_killed_keeper_leaves_is_cleared(place: Place) -> None:
    bed_process.start(place)
    keeper = bed_process.running(place)
    assert keeper is not None
    keeper.kill()
    # It is this test's child, and a child that nobody waits for stays as a zombie.
    keeper.wait(10)
    assert bed_process.running(place) is None
    bed_process.end(place)
    assert not (place.account / BED_FILE).exists()
    bed_process.start(place)
    assert told(place).api().is_ready()


def test_a_process_that_was_given_the_keepers_pid_is_not_the_keeper(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            place.bed_process.write_text(json.dumps({"pid": other.pid, "started": 1.0}))
            assert bed_process.running(place) is None
            bed_process.end(place)
            assert other.poll() is None
        finally:
            other.kill()
