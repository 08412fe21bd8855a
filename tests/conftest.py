"""What every tier needs of the process that runs it."""

import signal

# A shell without job control starts what it puts in the background with interrupts ignored, and all children inherit
# it: then nothing here that is interrupted would end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
