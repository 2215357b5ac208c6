"""What the words of a prompt find in the text index: the ranking that searches use, asked once and with a threshold."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

_WORDS_MIN = 2
_FOUND_MAX = 40
_SHARE_MIN = 0.5
"""Of what the rarest words of the prompt weigh."""


def search(home: Path, prompt: str) -> list[tuple[str, float]]:
    """Best first, and only what fits well. Empty where there is no index. Raises what a damaged one raises."""
    from tallystick.projections.text.projection import database_path

    path = database_path(home)
    if not path.exists():
        return []
    from tallystick.projections.database import Reader
    from tallystick.projections.text.postings import RecentWords
    from tallystick.projections.text.projection import read_place
    from tallystick.projections.text.ranking import Collected, Filter, Ranking, asked_words
    from tallystick.projections.text.slots import SlotTable

    words = asked_words(prompt)
    if len(words) < _WORDS_MIN:
        return []
    with closing(Reader(path)) as reader, reader.snapshot() as db:
        at = read_place(db)
        fields = SlotTable().refresh(db, at.generation, at.change)
        recent = RecentWords().read(db, at.merged, at.next_slot, (at.generation, at.recent_rewrites))
        ranking = Ranking(db, Collected(at.entities, at.length, fields, recent))
        found = ranking.scores(prompt, Filter(is_edge=False), spreads=False)
        best = sorted(found.by_slot.items(), key=lambda each: (-each[1], -each[0]))[:_FOUND_MAX]
        shares = ranking.shares(prompt, (slot for slot, _ in best))
        best = [(slot, score) for slot, score in best if _fits(*shares[slot])]
        rows = {slot: db.execute("SELECT id FROM entities WHERE slot = ?", (slot,)).fetchone() for slot, _ in best}
    return [(rows[slot][0], score) for slot, score in best if rows[slot] is not None]


def _fits(words: int, share: float) -> bool:
    return words >= _WORDS_MIN and share >= _SHARE_MIN
