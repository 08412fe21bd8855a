"""The comment that a pull request gets: whole, safe to read, and only one."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.pure.test_pull_request_preview import preview, told
from tests.support import engine_events as made
from tools.pull_request.__main__ import main
from tools.pull_request.clean import cleaner
from tools.pull_request.comment import LONGEST, MARK, comment
from tools.pull_request.github import PullRequest
from workload.errors import BadInputError, ReportedError


def test_the_comment_has_a_row_a_stack_with_changes_cost_policy_and_run() -> None:
    head = preview(
        made.job("replace", before=made.INPUTS, training_digest="bb"),
        made.kept("a", "b"),
        made.cost(18.9, ("GPU nodes", 4, 18.4)),
    )
    base = preview(made.job("same", before=made.INPUTS), made.cost(9.7, ("GPU nodes", 2, 9.2)))
    text = comment([told(head, base)], commit="0123456789abcdef", skipped={"cluster": "it asks its own cluster"})
    assert text.startswith(MARK)
    row = "| `dev` | 1 to replace | 9.70 → 18.90 USD (+9.20) | 2 rules kept | **due**: files under training/ changed |"
    assert row in text
    assert "| replace | `RayTrainJob train` |" in text
    assert "`cluster` was not previewed: it asks its own cluster" in text
    assert "`0123456789ab`" in text


def test_a_stack_that_fails_shows_its_error_and_one_that_is_refused_its_rule() -> None:
    failed = told(preview(made.error("gpuZone: ```no```"), end=False))
    refused = told(preview(made.broken("no-open-ingress", "efa: lets in *everyone*")))
    text = comment([failed, refused], commit="c")
    assert "**the preview failed**" in text and "gpuZone: '''no'''" in text
    assert "- `no-open-ingress`: efa: lets in \\*everyone\\*" in text
    assert text.count("<details open>") == 2


def test_nothing_in_a_comment_mentions_people_or_ends_a_table() -> None:
    head = preview(
        made.step("create", "a:b/c:C", "x`|@team <b>", inputs={}),
        made.job("replace", before=made.INPUTS, run_id="@team | <img>"),
    )
    text = comment([told(head)], commit="c")
    assert "→ @&#8203;team \\| &lt;img>" in text, "GitHub reads &#64; as an @, and mentions"
    assert "| create | `` C x`\\|@team <b> `` |  |" in text


def test_no_name_of_a_resource_ends_its_code() -> None:
    text = comment([told(preview(made.step("create", "a:b/c:C", "x`` @team `y", inputs={})))], commit="c")
    assert "| create | ``` C x`` @team `y ``` |  |" in text


def test_a_comment_that_is_too_long_keeps_its_table() -> None:
    steps = [made.step("create", "a:b/c:C", f"{number}{'x' * 1500}", inputs={}) for number in range(60)]
    text = comment([told(preview(*steps))], commit="c")
    assert len(text) <= LONGEST
    assert "60 to create" in text and "too long" in text


def test_what_a_comment_leaves_out_stands_in_the_jobs_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = [made.broken("no-open-ingress", f"rule {number} {'x' * 200}") for number in range(400)]
    steps = [made.step("create", "a:b/c:C", f"c{number}.", inputs={}) for number in range(70)]
    summary = told(preview(*steps, *findings))
    assert "rule 7 " not in comment([summary], commit="c"), "it is too long"
    assert "and 10 more" in comment([told(preview(*steps))], commit="c")
    (tmp_path / "dev.json").write_text(json.dumps(summary))
    assert main(["comment", "--from", str(tmp_path), "--commit", "c", "--print"]) == 0
    text = capsys.readouterr().out
    assert all(f"rule {number} x" in text for number in range(400))
    assert all(f"c{number}." in text for number in range(70))


def test_a_summary_is_never_longer_than_github_takes() -> None:
    findings = [made.broken("a", f"{number} {'é' * 2000}") for number in range(400)]
    text = comment([told(preview(*findings))], commit="c", whole=True)
    assert len(text.encode()) < 1 << 20
    assert "**1 broken**" in text and "too long" in text


def test_a_pull_request_that_touches_no_stack_is_told_so() -> None:
    assert "No stack is touched" in comment([], commit="c")
    assert "No stack is touched" not in comment([], commit="c", skipped={"cluster": "it asks its own cluster"})


def test_a_stack_whose_preview_left_nothing_is_told_beside_the_others() -> None:
    there = told(preview(made.job("same", before=made.INPUTS)))
    text = comment([there], commit="c", expected=["another", "dev"])
    assert "| `another` | **the preview did not finish**: see the job |" in text
    assert text.count("| `dev` |") == 1 and text.index("`another`") < text.index("`dev`")
    assert "No stack is touched" not in comment([], commit="c", expected=["dev"])


def test_the_stacks_are_taken_as_they_were_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.dumps([{"stack": "dev", "platform": "eks"}])
    asked = ["comment", "--from", str(tmp_path), "--commit", "c", "--previewed", listed, "--print"]
    assert main(asked) == 0
    assert "| `dev` | **the preview did not finish**" in capsys.readouterr().out


def test_secrets_of_the_environment_and_account_numbers_are_taken_out() -> None:
    clean = cleaner({"PULUMI_ACCESS_TOKEN": "pul-1234567", "AWS_SECRET_ACCESS_KEY": "abcd/efgh", "HOME": "home"})
    said = "arn:aws:iam::123456789012:role/a pul-1234567 abcd/efgh home 1234567890123"
    assert clean(said) == "arn:aws:iam::************:role/a *** *** home 1234567890123"


class _GitHub(BaseHTTPRequestHandler):
    comments: list[dict[str, Any]]
    asked: list[tuple[str, str]]

    def _do(self) -> None:
        path = self.path
        self.asked.append((self.command, path))
        if self.headers["Authorization"] != "Bearer right":
            self._answer(403, {"message": "Resource not accessible by integration"})
            return
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        if self.command == "GET":
            page = int(path.rpartition("page=")[2])
            self._answer(200, self.comments[(page - 1) * 100 : page * 100])
        elif self.command == "POST":
            self.comments.append({"id": len(self.comments), "user": {"type": "Bot"}, **body})
            self._answer(201, {"html_url": "https://example/new"})
        else:
            self.comments[int(path.rpartition("/")[2])].update(body)
            self._answer(200, {"html_url": "https://example/old"})

    do_GET = do_POST = do_PATCH = _do

    def _answer(self, status: int, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def github() -> Iterator[ThreadingHTTPServer]:
    _GitHub.comments, _GitHub.asked = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _GitHub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def pull(server: ThreadingHTTPServer, token: str = "right") -> PullRequest:
    return PullRequest(api=f"http://127.0.0.1:{server.server_port}", repository="o/r", number=7, token=token)


def test_a_second_push_replaces_the_comment_of_the_first(github: ThreadingHTTPServer) -> None:
    _GitHub.comments += [{"id": n, "body": f"said {n}", "user": {"type": "User"}} for n in range(120)]
    _GitHub.comments[5]["body"] = f"{MARK} quoted by a person"
    assert pull(github).tell(f"{MARK} first") == "https://example/new"
    assert pull(github).tell(f"{MARK} second") == "https://example/old"
    ours = [one["body"] for one in _GitHub.comments if one["user"]["type"] == "Bot"]
    assert ours == [f"{MARK} second"]
    assert ("POST", "/repos/o/r/issues/7/comments") in _GitHub.asked


def test_a_job_without_the_right_to_comment_is_told_which_it_lacks(github: ThreadingHTTPServer) -> None:
    with pytest.raises(ReportedError, match="pull-requests: write"):
        pull(github, token="wrong").tell("text")


def test_a_token_goes_nowhere_in_the_clear() -> None:
    with pytest.raises(BadInputError, match="not https"):
        PullRequest(api="http://api.example", repository="o/r", number=1, token="t")
