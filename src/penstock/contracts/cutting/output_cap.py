"""The cap of a contract on what models see of tools' outputs, and what it makes of them. Pure."""

import re
from collections.abc import Sequence

from penstock.contracts.cutting.json_output import cut_json
from penstock.contracts.cutting.shares import shares
from penstock.contracts.cutting.text_output import cut_text
from penstock.contracts.document import ToolOutputTerms
from penstock.records.name_patterns import expression_of, normal

# Several texts of one output are not made shorter than this: rather the middle ones are left out.
PART_BYTES_MIN = 256


class OutputCap:
    """Cuts outputs to `bytes_max`. `owner` is the contract's name, or "" for a setting."""

    def __init__(self, owner: str, terms: ToolOutputTerms) -> None:
        self.owner = owner
        self.bytes_max = terms.bytes_max
        self.tail_share = terms.tail_share
        names = sorted(map(normal, terms.exempt or ()))
        self._exempt = re.compile("|".join(map(expression_of, names)), re.DOTALL) if names else None

    def spares(self, tool: str) -> bool:
        """Return whether outputs of this tool stay whole; "" is a tool whose name is not known."""
        return (
            bool(tool) and self._exempt is not None and bool(self._exempt.fullmatch(normal(tool)))
        )

    def cut(self, parts: Sequence[bytes], json_bytes_max: int) -> list[bytes | None]:
        """Return the texts of one output in at most `bytes_max` bytes; None for one left out.

        JSON of more than `json_bytes_max` bytes is cut as any text.
        """
        if sum(map(len, parts)) <= self.bytes_max:
            return list(parts)
        if len(parts) == 1:
            return [self._cut(parts[0], self.bytes_max, json_bytes_max)]
        # An empty text counts as one byte: a share of none is for what is left out.
        lengths = [max(len(part), 1) for part in parts]
        room = self.bytes_max - len(_mark(len(parts), sum(lengths), self.owner))
        kept = shares(lengths, room, self.tail_share, PART_BYTES_MIN)
        cut = [
            self._cut(part, share, json_bytes_max) if share else None
            for part, share in zip(parts, kept, strict=True)
        ]
        gone = [at for at, part in enumerate(cut) if part is None]
        if gone:
            cut[gone[0]] = _mark(len(gone), sum(len(parts[at]) for at in gone), self.owner)
        return cut

    def _cut(self, text: bytes, room: int, json_bytes_max: int) -> bytes:
        if len(text) <= room:
            return text
        if len(text) <= json_bytes_max:
            found = cut_json(text, room, self.tail_share)
            if found is not None:
                return found
        return cut_text(text, room, self.tail_share, self.owner)


def _mark(count: int, size: int, owner: str) -> bytes:
    of = f": contract {owner}" if owner else ""
    return f"[{size:,} bytes in {count:,} parts left out here{of}]".encode()
