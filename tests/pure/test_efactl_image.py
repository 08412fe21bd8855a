"""`efactl image check`: the tag of a stack's setting against its last good run, with a registry on loopback."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from efactl import run_sources
from efactl import stack as stack_module
from efactl.__main__ import main
from infra.kubernetes_settings import _IMAGE
from tests.support.loopback_registry import Registry, serving
from tests.support.recorded import NAME, kept


class Bench:
    """A stack `dev` of a project, its runs, and the registry that has its image."""

    def __init__(self, folder: Path, registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.registry, self._capsys = folder, registry, capsys
        self.runs = folder / "runs"
        self.reference = f"{registry.image}:v1"
        self.set(self.reference)

    def set(self, image: str, platform: str = "kubernetes", **more: str) -> None:
        config = {"platform": platform, "kubeNamespace": "ray-train", "rayImage": image, **more}
        self._write({f"ray-train-efa:{name}": value for name, value in config.items()})

    def _write(self, config: dict[str, Any]) -> None:
        (self.folder / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}))

    def ran(self, run: str, digest: str, **changes: Any) -> None:
        kept(self.runs, run, image=self.reference, digest=digest, **changes)

    def check(self) -> tuple[int, Any]:
        code = main(["image", "check", "-s", "dev", "--json"])
        return code, json.loads(self._capsys.readouterr().out)

    def text(self) -> tuple[int, str]:
        code = main(["image", "check", "-s", "dev"])
        return code, self._capsys.readouterr().out


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Bench]:
    (tmp_path / "Pulumi.yaml").write_text((stack_module.FOLDER / "Pulumi.yaml").read_text())
    monkeypatch.setattr(stack_module, "FOLDER", tmp_path)
    monkeypatch.setattr(run_sources, "FOLDER", tmp_path)
    with serving() as registry:
        yield Bench(tmp_path, registry, capsys)


def test_a_tag_that_stayed_is_the_last_good_run_s_image(bench: Bench) -> None:
    digest = bench.registry.push("v1", "one")
    bench.ran("good-1", digest)
    code, told = bench.check()
    assert (code, told["state"]) == (0, "same")
    assert told["lastGood"]["run"] == f"{NAME}-good-1"
    assert told["update"] is None
    pinned = f"{bench.reference}@{digest}"
    assert told["keep"]["command"] == f"pulumi config set rayImage {pinned} -s dev", "a tag is no identity"


def test_a_tag_that_moved_is_told_with_the_one_line_to_change(bench: Bench) -> None:
    old, new = bench.registry.push("v1", "one"), bench.registry.push("v1", "two")
    bench.ran("good-1", old)
    code, told = bench.check()
    assert (code, told["state"], told["tag"]["digest"]) == (4, "moved", new)
    line = f"ray-train-efa:rayImage: {bench.reference}@{new}  # was {old} of {NAME}-good-1"
    assert told["update"]["yaml"] == line, "the old identity stays in the line that takes its place"
    config = yaml.safe_load(f"config:\n  {line}")["config"]
    assert config == {"ray-train-efa:rayImage": f"{bench.reference}@{new}"}
    assert _IMAGE.fullmatch(config["ray-train-efa:rayImage"]), "the program takes it"
    _, text = bench.text()
    assert f"\n  pulumi config set rayImage {bench.reference}@{new} -s dev\n" in text
    assert text.rstrip().endswith("then `efactl up -s dev`, and `efactl runs diff good-1 NEW` says what it did")
    # Taken, and run: that is then the good one.
    bench.set(f"{bench.reference}@{new}")
    assert bench.check()[0] == 4, "not before it has run"
    bench.ran("newer-1", new, minutes=9)
    code, told = bench.check()
    assert (code, told["state"], told["pinned"], told["keep"], told["update"]) == (0, "same", True, None, None)


def test_a_pinned_image_stays_though_its_tag_moved(bench: Bench) -> None:
    old = bench.registry.push("v1", "one")
    new = bench.registry.push("v1", "two")
    bench.ran("good-1", old)
    bench.set(f"{bench.reference}@{old}")
    code, told = bench.check()
    assert (code, told["state"], told["wouldRun"]["digest"], told["tag"]["digest"]) == (0, "same", old, new)
    assert told["keep"] is None
    assert told["update"]["command"].endswith(f"@{new} -s dev")
    assert "the tag points at another one" in bench.text()[1]


def test_a_node_s_digest_is_found_in_the_tag_s_index(bench: Bench) -> None:
    _, (amd, _) = bench.registry.push_index("v1", "one", "two")
    bench.ran("good-1", amd)
    code, told = bench.check()
    assert (code, told["state"]) == (0, "same")
    assert told["tag"]["platforms"][amd] == "linux/amd64"
    assert "(an index: linux/amd64, linux/arm64)" in bench.text()[1]


def test_pods_of_two_images_are_no_one_image(bench: Bench) -> None:
    old, new = bench.registry.push("", "one"), bench.registry.push("v1", "two")
    bench.ran("good-1", old, image__digest=f"{old}, {new}")
    code, told = bench.check()
    assert (code, told["state"], told["keep"]) == (4, "moved", None)


def test_without_a_good_run_nothing_is_proven(bench: Bench) -> None:
    digest = bench.registry.push("v1", "one")
    bench.ran("bad-1", digest, expect="efa")
    kept(bench.runs, "other-1", stack="another", digest=digest)
    code, told = bench.check()
    assert (code, told["state"], told["lastGood"], told["keep"]) == (4, "unproven", None, None)
    assert told["update"]["yaml"] == f"ray-train-efa:rayImage: {bench.reference}@{digest}"


@pytest.mark.parametrize(("status", "reason"), [(404, "absent"), (403, "refused"), (429, "limited"), (503, "failed")])
def test_a_registry_that_does_not_tell_has_an_exit_of_its_own(status: int, reason: str, bench: Bench) -> None:
    digest = bench.registry.push("v1", "one")
    bench.ran("good-1", digest)
    bench.registry.answers["HEAD"] = (status, {})
    code, told = bench.check()
    assert (code, told["state"], told["problem"]["reason"]) == (1, "unknown", reason)
    assert told["lastGood"]["digests"] == [digest], "what is on record is told all the same"
    assert told["keep"]["command"].endswith(f"@{digest} -s dev")
    code, text = bench.text()
    assert code == 1
    assert f"\nunknown: registry 127.0.0.1:{bench.registry.port} " in text


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_a_pin_to_the_proven_image_is_the_same_whatever_keeps_the_registry_from_telling(
    status: int, bench: Bench
) -> None:
    digest = bench.registry.push("v1", "one")
    bench.ran("good-1", digest)
    bench.set(f"{bench.reference}@{digest}")
    bench.registry.answers["HEAD"] = (status, {})
    code, told = bench.check()
    assert (code, told["state"], told["keep"]) == (0, "same", None)
    assert told["problem"]["message"]
    text = bench.text()[1]
    assert "\nsame: an `up` would run the image of the last good run\nnote: registry 127.0.0.1:" in text


def test_a_pin_that_the_registry_no_longer_has_is_not_the_same(bench: Bench) -> None:
    gone = f"sha256:{'a' * 64}"
    bench.ran("good-1", gone)
    bench.set(f"{bench.reference}@{gone}")
    code, told = bench.check()
    assert (code, told["state"], told["problem"]["reason"]) == (1, "unknown", "absent"), "a new node could not pull it"


def test_a_pin_is_told_though_its_tag_is_gone(bench: Bench) -> None:
    old, new = bench.registry.push("", "one"), bench.registry.push("", "two")
    bench.ran("good-1", old)
    for pin, known in ((old, (0, "same")), (new, (4, "moved"))):
        bench.set(f"{bench.registry.image}:gone@{pin}")
        code, told = bench.check()
        assert (code, told["state"]) == known
        assert told["problem"]["reason"] == "absent"


def test_a_proven_image_of_another_repository_is_kept_from_there(bench: Bench) -> None:
    """A digest is of its repository: in the setting's there may be no such image."""
    old, new = f"sha256:{'a' * 64}", bench.registry.push("v1", "mine")
    kept(bench.runs, "good-1", image="registry.example/team/ray:v0", digest=old)
    code, told = bench.check()
    assert (code, told["state"]) == (4, "moved")
    assert told["keep"]["command"] == f"pulumi config set rayImage registry.example/team/ray:v0@{old} -s dev"
    assert told["update"]["command"] == f"pulumi config set rayImage {bench.reference}@{new} -s dev"
    assert "of another repository than the setting's: registry.example/team/ray\n" in bench.text()[1]


def test_a_proven_image_keeps_the_tag_that_it_ran_under(bench: Bench) -> None:
    old = bench.registry.push("v1", "one")
    bench.registry.push("v2", "two")
    bench.ran("good-1", old)
    bench.set(f"{bench.registry.image}:v2")
    assert bench.check()[1]["keep"]["command"].split()[4] == f"{bench.registry.image}:v1@{old}"
    assert "another repository" not in bench.text()[1]


def test_offline_says_so(bench: Bench) -> None:
    bench.set("registry.invalid/team/ray:v1")
    code, told = bench.check()
    assert code == 1
    assert told["problem"]["reason"] in ("offline", "timed out")


def test_the_record_s_good_run_may_lie_elsewhere(bench: Bench, tmp_path: Path) -> None:
    digest = bench.registry.push("v1", "one")
    kept(tmp_path / "archive", "good-1", digest=digest)
    assert main(["image", "check", "-s", "dev"]) == 4
    assert main(["image", "check", "-s", "dev", "--from", str(tmp_path / "archive")]) == 0
    bench.set(bench.reference, recordsPath=str(tmp_path / "archive"))
    assert main(["image", "check", "-s", "dev"]) == 0, "the stack's own place for records is looked in"


@pytest.mark.parametrize(
    ("image", "platform", "words"),
    [
        ("x", "local", "stack dev runs no image"),
        ("ray:v1", "kubernetes", "image 'ray:v1' names no registry"),
    ],
)
def test_what_has_no_registry_is_bad_input(
    image: str, platform: str, words: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.set(image, platform)
    assert main(["image", "check", "-s", "dev"]) == 2
    assert re.match(f"efactl image: {words}", capsys.readouterr().err)
    assert main(["image", "check", "-s", "nowhere"]) == 2
