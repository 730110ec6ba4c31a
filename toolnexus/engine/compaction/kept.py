"""What one run sends of its transcript: a head that stands for the older part, and the newer part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolnexus.core.messages import Message, user
from toolnexus.engine.background import AT_REST
from toolnexus.engine.compaction.parts import LEAST_RESULT, longest_result, shortened, tail_start
from toolnexus.engine.given_up import AT_END
from toolnexus.engine.loop import NUDGE

Count = Callable[[Sequence[Message]], int]

_NOTES = "The older part of this conversation was left out. These notes stand for it:\n\n"
_LOST = "[{count} older messages were left out without notes: they could not be summarised.]"

_NOT_THE_USER = (NUDGE, AT_REST, AT_END)
"""How messages begin that the loop itself writes: nobody asks anything in them."""


class Kept:
    """The transcript of one run, and what is sent of it.

    Every message is counted once, when it comes. What is sent changes at its end only, until
    something is left out.
    """

    def __init__(self, limit: int, count: Count) -> None:
        self.limit = limit
        """Tokens that may be sent; an endpoint that takes less makes it smaller."""
        self.head: list[Message] = []
        """The notes, and the user's requests that lie in the older part."""
        self.tail: list[Message] = []
        """The newer part as the transcript has it."""
        self.summaries = 0
        self._count = count
        self._followed: Sequence[Message] | None = None
        self._sent: list[Message] = []
        self._cut = False
        """Whether results were cut, so that what is sent is not the transcript's own."""
        self._sizes: list[int] = []
        self._covered = 0
        self._last: Message | None = None
        self._notes = ""
        self._lost = 0
        self._pinned: dict[int, Message] = {}
        self._ask = range(0)
        self._newest = range(0)
        self._head_size = self._tail_size = 0

    @property
    def size(self) -> int:
        """Tokens of what is sent."""
        return self._head_size + self._tail_size

    @property
    def left_out(self) -> int:
        """How many messages of the transcript are not sent."""
        return self._covered - len(self._pinned)

    @property
    def notes(self) -> tuple[str, int]:
        """The notes, and how many messages are in none."""
        return self._notes, self._lost

    def follow(self, messages: Sequence[Message]) -> bool:
        """Take what `messages` has more than before; false when it is another transcript altogether."""
        known = self._covered + len(self.tail)
        if not self._continues(messages, known):
            return False
        self._followed = messages
        first = known == 0
        for message in messages[known:]:
            self._add(message)
        if first:
            self._ask = self._newest
        return True

    def _continues(self, messages: Sequence[Message], known: int) -> bool:
        """Whether `messages` begins with what was followed so far: in one step where it is the same list,
        which only grows."""
        if messages is self._followed and len(messages) >= known and messages[known - 1] is self.tail[-1]:
            return True
        if self._covered and (len(messages) < known or messages[self._covered - 1] != self._last):
            return False
        return list(messages[self._covered : known]) == self.tail

    def sent(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What to send for `messages`, which was followed: itself while nothing is left out."""
        if not self._covered and not self._cut:
            return messages
        return [*self.head, *self._sent]

    def cut(self, keep: int) -> tuple[int, int]:
        """Where the tail may be cut so that at most `keep` tokens and its newest group stay, and how many
        tokens that leaves out."""
        at = tail_start(self.tail, self._sizes, keep)
        places = range(self._covered, self._covered + at)
        return at, sum([size for i, size in zip(places, self._sizes, strict=False) if not self._is_pinned(i)])

    def leave_out(self, at: int, notes: str | None) -> None:
        """Let `notes` stand for the head and for the tail before `at`.

        Without notes the old ones stay and say how much they do not cover.
        """
        before = self.left_out
        for place, message in enumerate(self.tail[:at], self._covered):
            self._pinned[place] = message
        self._covered += at
        self._pinned = {i: m for i, m in self._pinned.items() if self._is_pinned(i)}
        self._last = self.tail[at - 1]
        del self.tail[:at], self._sent[:at], self._sizes[:at]
        self._tail_size = sum(self._sizes)
        if notes is None:
            self._lost += self.left_out - before
        else:
            self._notes, self._lost = self._bounded(notes), 0
        self._write_head()

    def recall(self, at: int, notes: str, lost: int) -> None:
        """Let notes that were written before stand for the tail before `at`."""
        self.leave_out(at, notes)
        self._lost = lost
        self._write_head()

    def shorten_results(self) -> None:
        """Cut the longest results until what is sent fits with room to spare, or they are all short."""
        goal = self.limit * 3 // 4
        most = max(longest_result(self._sent), LEAST_RESULT + 1)  # where all are short, their files go
        while self.size > goal and most > LEAST_RESULT:
            most = max(most // 2, LEAST_RESULT)
            for i, message in enumerate(self.tail):  # not what was cut before: that would be told wrongly
                short = shortened(message, most)
                if short is not message and (size := self._count([short])) < self._sizes[i]:
                    self._sent[i], self._sizes[i] = short, size
                    self._cut = True
            self._tail_size = sum(self._sizes)

    def _add(self, message: Message) -> None:
        place = self._covered + len(self.tail)
        size = self._count([message])
        self.tail.append(message)
        self._sent.append(message)
        self._sizes.append(size)
        self._tail_size += size
        if message.role == "user" and not message.text.startswith(_NOT_THE_USER):
            start = self._newest.start if self._newest.stop == place else place
            self._newest = range(start, place + 1)

    def _is_pinned(self, place: int) -> bool:
        return place in self._ask or place in self._newest

    def _bounded(self, notes: str) -> str:
        """Notes that do not take more than a quarter of what may be sent."""
        size, most = self._count([user(notes)]), max(self.limit // 4, 1)
        return notes if size <= most else notes[: len(notes) * most // size] + " […]"

    def _write_head(self) -> None:
        lost = _LOST.format(count=self._lost) if self._lost else ""
        text = "\n\n".join([part for part in (self._notes, lost) if part])
        self.head = [user(_NOTES + text), *self._pinned.values()]
        self._head_size = self._count(self.head)
