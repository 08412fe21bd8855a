"""What AWS answers when it refuses."""

from tools.standin.account import Entry


class AwsError(Exception):
    """One refusal: AWS's error code and message. `slow` is how many modelled seconds pass before it is known.

    `partial` says that the thing exists all the same, with that status: a node group that ends as CREATE_FAILED.
    `own`: the message is the provider's, and nobody is told the code.
    """

    def __init__(self, code: str, message: str, *, slow: float = 0, partial: str = "", own: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.slow, self.partial, self.own = code, message, slow, partial, own


class PartialError(Exception):
    """The thing is there, and not as it should be."""

    def __init__(self, entry: Entry, code: str, message: str) -> None:
        super().__init__(message)
        self.entry, self.code, self.message = entry, code, message
