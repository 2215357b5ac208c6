"""The words of a text, and what makes two of them one: case, accents, endings, irregular forms.

Words are runs of letters and digits of the folded text: without case, accents and compatibility forms. A name that is
written in camel case is a word, and so is each of its parts. Scripts that do not put spaces between words give
pairs of neighbouring characters instead. What the index keeps are the words as they stand; `stem` says which
of them a question means too.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any
from unicodedata import combining, normalize

from Stemmer import Stemmer  # type: ignore[import-not-found]  # compiled, without stubs

WORD_CHARACTERS_MAX = 48
"""A longer run is kept in parts that overlap by half: it is a key or a hash, and nobody says it whole."""
PART_CHARACTERS = WORD_CHARACTERS_MAX // 2
"""So many characters of a run stand together in one of its words, wherever they begin."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029"
    "\u3038-\u303b\u3041-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Han, kana, hangul, bopomofo, Thai, Lao, Myanmar, Khmer and their like."""
RUN = re.compile(r"[^\W_]+(?:[\u0300-\u036f]+[^\W_]*)*")
"""Letters and digits; an accent that stands by itself belongs to the letter before it."""
_ASCII_SPACED = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))


@cache
def _unspaced() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A character of such a script, and a run of them or of others. Compiled when a text needs it: it takes as long as
    all other expressions of a start together."""
    return re.compile(f"[{_UNSPACED}]"), re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")


_ACCENTS = re.compile("[\u0300-\u036f]+")
_STROKED = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe"})
"""Letters that have no decomposition."""


def folded_letters(text: str) -> str:
    """The text without accents and compatibility forms; its case stays. Scripts without accents stay as they are."""
    if text.isascii():
        return text
    return normalize("NFC", _ACCENTS.sub("", normalize("NFKD", text))).translate(_STROKED)


_BOUNDARY = re.compile("[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_NAME = re.compile("[A-Za-z0-9]+")
_CAMEL_PART = re.compile("[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_CAMEL_PARTS_MAX = 8
"""A run with more is a key, not a name."""


def name_parts(text: str) -> list[str]:
    """The parts of names in camel case, folded: `HTTPServer` has http and server, `v2Api` has v2 and api."""
    found: list[str] = []
    letters = folded_letters(text)
    # Most texts have no such name, and looking for a boundary costs little.
    runs = _NAME.findall(letters) if _BOUNDARY.search(letters) else []
    for name in [run for run in runs if not run.islower()]:
        if len(name) > WORD_CHARACTERS_MAX or not _BOUNDARY.search(name):
            continue
        parts = _CAMEL_PART.findall(name)
        if len(parts) <= _CAMEL_PARTS_MAX:
            found += [part.lower() for part in parts if len(part) > 1]
    return found


def words_in(text: str) -> list[str]:
    """Of a text as it is written, with the parts of its names."""
    return words_of(text.casefold()) + name_parts(text)


def words_of(folded: str) -> list[str]:
    """Of a casefolded text, in its order."""
    if not folded.isascii():
        return list(_parts(RUN.findall(folded_letters(folded).casefold())))
    runs = folded.translate(_ASCII_SPACED).split()
    return runs if max(map(len, runs), default=0) <= WORD_CHARACTERS_MAX else list(_parts(runs))


def _parts(runs: Iterable[str]) -> Iterable[str]:
    character, part_of_run = _unspaced()
    for run in runs:
        if len(run) <= WORD_CHARACTERS_MAX and (run.isascii() or not character.search(run)):
            yield run
            continue
        for part in part_of_run.findall(run):
            if character.match(part):
                yield from pairs(part)
            else:
                yield from _overlapping(part)


def _overlapping(part: str) -> Iterable[str]:
    for at in range(0, max(len(part) - PART_CHARACTERS, 1), PART_CHARACTERS):
        yield part[at : at + WORD_CHARACTERS_MAX]


def fragment(text: str) -> str | None:
    """Something that stands within one word of every text that holds this one; None where there is nothing such."""
    character, part_of_run = _unspaced()
    if any(_joins(each) for each in text):
        return None
    folded = folded_letters(text.casefold()).casefold()
    parts = [part for run in RUN.findall(folded) for part in part_of_run.findall(run)]
    if not parts:
        return None
    longest: str = max(parts, key=len)
    return longest[:2] if character.match(longest) else longest[:PART_CHARACTERS]


def _joins(character: str) -> bool:
    """Whether folding may make one character of it and of what stands before it."""
    is_accent = "\u0300" <= character <= "\u036f"
    return (combining(character) != 0 and not is_accent) or "\u1100" <= character <= "\u11ff"


def pairs(run: str) -> list[str]:
    """Of a script without spaces: neighbouring characters; a character that stands alone is a word."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


_STOP_WORDS = """
    a about above after again against ain all also am an and any are aren as at be because been before being below
    between both but by can could couldn d did didn do does doesn doing don down during each few for from further
    had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
    just ll m ma may me might mightn more most much must mustn my myself needn no nor not now o of off on once only or
    other our ours ourselves out over own re s same shall shan she should shouldn so some such t than that the their
    theirs them themselves then there these they this those through to too under until up upon us ve very was wasn we
    were weren what when where whether which while who whom whose why will with won would wouldn y you your yours
    yourself yourselves"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say how a question is put, not what it is about."""

_IRREGULAR = """
be am is are was were been being|begin began begun|bite bit bitten|blow blew blown|break broke broken|bring brought
build built|buy bought|catch caught|choose chose chosen|come came|do did done does|draw drew drawn|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fly flew flown
forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given|go went gone goes
grow grew grown|hang hung|have had has|hear heard|hide hid hidden|hold held|keep kept|know knew known|lay laid
lead led|lend lent|lie lay lain|light lit|lose lost|make made|mean meant|meet met|pay paid|ride rode ridden
ring rang rung|rise rose risen|run ran|say said|see saw seen|seek sought|sell sold|send sent|shake shook shaken
shine shone|shoot shot|show shown|shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept
slide slid|speak spoke spoken|spend spent|spin spun|stand stood|steal stole stolen|stick stuck|strike struck
swear swore sworn|sweep swept|swim swam swum|take took taken|teach taught|tear tore torn|tell told|think thought
throw threw thrown|understand understood|wake woke woken|wear wore worn|win won|wind wound|withdraw withdrew withdrawn
write wrote written|bend bent|bind bound|bleed bled|breed bred|burn burnt|deal dealt|dig dug|dream dreamt|learn learnt
leave left|overcome overcame|rebuild rebuilt|redo redid redone|rewrite rewrote rewritten|undo undid undone
become became|arise arose arisen|awake awoke awoken|bear bore born borne|beat beaten|foresee foresaw foreseen
spring sprang sprung|sting stung|string strung|swing swung|weave wove woven|weep wept|creep crept|spell spelt
spill spilt|shear shorn|sew sewn|sow sown|prove proven|bid bade|cling clung|forbid forbade forbidden
child children|man men|woman women|person people|foot feet|tooth teeth|goose geese|mouse mice|ox oxen
wife wives|life lives|knife knives|half halves|leaf leaves|loaf loaves|shelf shelves|thief thieves|wolf wolves
calf calves|elf elves|self selves|scarf scarves|wharf wharves|hoof hooves
analysis analyses|basis bases|crisis crises|thesis theses|hypothesis hypotheses|axis axes|diagnosis diagnoses
datum data|medium media|criterion criteria|phenomenon phenomena|index indices|matrix matrices|vertex vertices
appendix appendices|schema schemata|good better best|bad worse worst|far farther farthest further furthest"""
"""Of each group the first is the form that the others stand for."""


def _forms() -> dict[str, str]:
    forms: dict[str, str] = {}
    for group in re.split(r"[|\n]", _IRREGULAR.strip()):
        first, *others = group.split()
        for other in others:
            forms.setdefault(other, first)
    return forms


_FORMS = _forms()


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """What all forms of an English word have in common: Porter's algorithm, after the irregular forms. Other words
    are left alone."""
    word = _FORMS.get(word, word)
    if len(word) < 3 or not word.isascii() or not word.isalpha():
        return word
    stemmed: str = _own.stemmer.stemWord(word)
    return stemmed


class _Own(threading.local):
    """One for each thread: stemmers are not to be shared."""

    def __init__(self) -> None:
        self.stemmer: Any = Stemmer("porter", 0)


_own = _Own()
