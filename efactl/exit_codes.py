"""What efactl's exit status says; the same in every command."""

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUTED = 3
    UNPROVEN = 4
    QUALITY = 5
    SLOW = 6
    NO_CAPACITY = 7
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "done; after `up`: the job SUCCEEDED and its transport is proven as expected",
    ExitCode.FAILED: "something failed; the message says what",
    ExitCode.BAD_INPUT: "a command line or stack name that cannot be used",
    ExitCode.REFUTED: "the transport is not the expected one",
    ExitCode.UNPROVEN: "evidence is missing, so the transport is not proven",
    ExitCode.QUALITY: "the transport is proven, the model is not good enough",
    ExitCode.SLOW: "the transport is proven, the speed-up is less than demanded",
    ExitCode.NO_CAPACITY: "AWS has no place for the GPU nodes among those asked about, or a probe found none certain",
    ExitCode.INTERRUPTED: "interrupted: the job goes on; that of a comparison is stopped",
}
