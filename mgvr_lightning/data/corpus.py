"""What every source of text offers: documents in a fixed order, and a digest of what they depend on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """One text and where it came from.

    Attributes:
        text: The text, exactly as stored: line ends, control characters and spaces included.
        key: A stable name that people can find it by, such as ``file:row`` or ``package/module.py``. Messages
            quote it; splits and caches do not depend on it.
    """

    text: str
    key: str


class Corpus(ABC):
    """Documents of text, in a fixed order.

    Attributes:
        progress: Whether ``documents`` may draw a progress bar on stderr.
    """

    progress: bool = False

    @abstractmethod
    def documents(self) -> Iterator[Document]:
        """Yield all documents; every call starts from the first and gives the same ones.

        Raises:
            InputError: If the text cannot be read as asked.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hex digest that changes exactly when the documents or a setting that matters change.

        It takes at most about a second for some hundred megabytes.

        Raises:
            InputError: If the sources are not there.
        """

    def describe(self) -> dict[str, str | int]:
        """Return plain facts about the source for a run's records; complete once all documents were read."""
        return {}
