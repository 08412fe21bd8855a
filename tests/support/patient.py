"""A region that hangs, with others that may take as long as a busy machine needs."""

from capacity.at_once import AtOnce


class Patient(AtOnce):
    """Counts the silence of a region only once it is the last that owes an answer."""

    def _give_up(self) -> str:
        return super()._give_up() if len(self.waiting()) == 1 else ""
