"""A promise of the program, and the deliberate fault that breaks it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Break:
    """One way to break the program.

    Attributes:
        what: the promise as it reads when it is broken.
        file: where, below the checkout.
        text: what stands there exactly once.
        by: what stands there instead.
        test: the pytest id that must fail; it needs neither root nor the node in a box.
    """

    what: str
    file: str
    text: str
    by: str
    test: str

    def apply(self, source: str) -> str:
        """Return the file's text, broken.

        Raises:
            ValueError: the text does not stand there exactly once; the table is out of date.
        """
        count = source.count(self.text)
        if count != 1:
            raise ValueError(f"{self.file}: stands there {count} times, not once: {self.text!r}")
        return source.replace(self.text, self.by)
