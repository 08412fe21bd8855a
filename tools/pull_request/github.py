"""A pull request's one comment of ours: made by the first push, replaced by every later one."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from tools.pull_request.comment import MARK
from workload.errors import BadInputError, ReportedError

_PAGE = 100


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """`api` is GITHUB_API_URL, `repository` owner/name. The token needs `pull-requests: write`."""

    api: str
    repository: str
    number: int
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        # The token goes there.
        if not self.api.startswith(("https://", "http://127.0.0.1:")):
            raise BadInputError(f"GITHUB_API_URL {self.api} is not https")

    def tell(self, text: str) -> str:
        """Its web address. Raises ReportedError with what GitHub answers."""
        body = {"body": text}
        if (found := self._ours()) is not None:
            told = self._ask("PATCH", f"/repos/{self.repository}/issues/comments/{found}", body)
        else:
            told = self._ask("POST", f"/repos/{self.repository}/issues/{self.number}/comments", body)
        return str(told["html_url"])

    def _ours(self) -> int | None:
        page = 1
        while True:
            path = f"/repos/{self.repository}/issues/{self.number}/comments?per_page={_PAGE}&page={page}"
            listed = self._ask("GET", path, None)
            for one in listed:
                # A person who quotes the comment quotes its mark.
                if str(one.get("body") or "").startswith(MARK) and one["user"]["type"] == "Bot":
                    return int(one["id"])
            if len(listed) < _PAGE:
                return None
            page += 1

    def _ask(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(  # noqa: S310 - https, or this machine in tests
            f"{self.api.rstrip('/')}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "User-Agent": "ray-train-efa",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(400).decode(errors="replace")
            hint = ": does the job have `pull-requests: write`?" if error.code in (401, 403) else ""
            raise ReportedError(f"GitHub answered {error.code} to {method} {path}{hint} {said}") from None
        except OSError as error:
            raise ReportedError(f"GitHub does not answer at {self.api}: {error}") from None
