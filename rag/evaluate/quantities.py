"""Numbers of a text with their units, and whether two of them say the same.

Units are a small table on purpose: those in which answers about documents are given. A number in a unit that isn't listed is a bare one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag.evaluate.checker import fold

_YEAR = 365.25

UNITS: dict[str, tuple[str, float]] = {
    name: (dimension, factor)
    for names, dimension, factor in (
        ("seconds second sec s", "time", 1 / 86_400),
        ("minutes minute min", "time", 1 / 1_440),
        ("hours hour h", "time", 1 / 24),
        ("person-days person-day days day", "time", 1.0),
        ("weeks week", "time", 7.0),
        ("months month", "time", _YEAR / 12),
        ("person-years person-year patient-years patient-year years year yrs yr py", "time", _YEAR),
        ("decades decade", "time", 10 * _YEAR),
        ("% percent per-cent", "percent", 1.0),
        ("fold times", "fold", 1.0),
        ("l litres litre liters liter", "volume", 1.0),
        ("dl decilitres decilitre deciliters deciliter", "volume", 0.1),
        ("ml millilitres millilitre milliliters milliliter cc cm3", "volume", 1e-3),
        ("mm3 cubic-millimetres cubic-millimeters", "volume", 1e-6),
        ("kg kilograms kilogram", "mass", 1e3),
        ("g grams gram", "mass", 1.0),
        ("mg milligrams milligram", "mass", 1e-3),
        ("μg ug micrograms microgram mcg", "mass", 1e-6),
        ("ng nanograms nanogram", "mass", 1e-9),
        ("pg picograms picogram", "mass", 1e-12),
        ("km kilometres kilometers", "length", 1e3),
        ("m metres metre meters meter", "length", 1.0),
        ("cm centimetres centimetre centimeters centimeter", "length", 1e-2),
        ("mm millimetres millimetre millimeters millimeter", "length", 1e-3),
        ("μm um micrometres micrometers", "length", 1e-6),
        ("nm nanometres nanometers", "length", 1e-9),
        ("m2 m^2 square-metres square-meters", "area", 1.0),
        ("iu international-units", "iu", 1.0),
        ("pa pascal", "pressure", 1.0),
        ("kpa kilopascal", "pressure", 1e3),
        ("mmhg", "pressure", 133.322),
        ("mmol millimoles", "substance", 1e-3),
        ("mol moles", "substance", 1.0),
    )
    for name in names.split()
}
"""Name -> dimension and size in the dimension's base unit (days, litres, grams, metres)."""

_NAMES = "|".join(re.escape(n).replace(r"\-", "[- ]") for n in sorted(UNITS, key=len, reverse=True))
_PER = r"(?:/| ?per )"
_UNIT = rf"(?:(?P<unit>{_NAMES})(?![^\W_]))?(?:{_PER}(?P<many>\d{{1,9}} )?(?P<base>{_NAMES})(?![^\W_]))?"
_VALUE = r"[-+]?(?:\d{1,15}(?:\.\d{1,15})?|\.\d{1,15})(?:e[-+]?\d{1,2})?"
_QUANTITY = re.compile(
    rf"(?<![\w.])(?P<value>{_VALUE})(?: ?/ ?(?P<below>\d{{1,9}})(?![\d.]))?(?P<ordinal>st|nd|rd|th)?"
    rf"(?:[ -]?{_UNIT})(?![^\W_]|\.\d)"
)
_RATE = re.compile(rf"{_PER}(?P<many>\d{{1,9}} )?(?P<base>{_NAMES})(?![^\W_])")
_ASKED = re.compile(rf"\b(?:how many|number of|in|what)(?: [a-z]+)? (?P<unit>{_NAMES})(?![^\W_])")
_AGE = re.compile(r"\b(?:age|old|older|aged)\b")
_PERCENTAGE = re.compile(r"\bpercentages?\b")
_SAME_UNIT = re.compile(r"(?:, ?| ?- ?| to | and | or |, and |, or )\Z")
_RANGE = re.compile(r" ?- ?| to | and | until ")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d.,]| \d)")

_HEDGES = "about approximately approx around roughly nearly almost some circa ca ~ ≈".split()
HEDGE = re.compile(rf"(?<![a-z])(?:close to|{'|'.join(map(re.escape, _HEDGES))})\.? ?(?:[a-z=]+ )?\Z")
_OVER = re.compile(r"(?:over|more than|above|at least|upwards of|greater than|>|≥) ?\Z")
_UNDER = re.compile(r"(?:under|fewer than|less than|below|at most|up to|<|≤) ?\Z")

_FRACTIONS = tuple(
    (re.compile(rf"\b(?:{count} )?{name}\b(?!-)"), f"{top}/{below}")
    for count, top, names in (("two", 2, ("thirds",)), ("three", 3, ("quarters",)), ("an?|one", 1, ("half", "third", "quarter")))
    for name, below in (("half", 2), ("third", 3), ("thirds", 3), ("quarter", 4), ("quarters", 4))
    if name in names
)  # fmt: skip
_SCALES = {"thousand": "e3", "million": "e6", "billion": "e9"}
_SCALED = re.compile(rf"(\d) ({'|'.join(_SCALES)})\b")
_ARTICLE = re.compile(r"\b(?:an?|one) (?=(?:hour|day|week|month|year|decade)\b)")

ROUNDED = 0.05
"""A rounded number may be off by this share at most: 0.005 for 0.0048."""
READ_OFF = 0.01
"""A value read off a drawing ("about 0.28") may be off by this share of its scale, the next power of ten, and by ``ROUNDED`` of itself."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a folded text. ``step`` is one of its last digit, both in the unit as written; ``dimension`` is empty where it has no
    unit, ``factor`` leads to the base unit. ``top`` is the upper end where it begins a range. ``start`` and ``end`` are offsets."""

    value: float
    step: float
    start: int
    end: int
    dimension: str = ""
    factor: float = 1.0
    hedged: bool = False
    bound: str = ""
    top: float | None = None

    @property
    def digits(self) -> int:
        """Significant digits."""
        return 1 if self.value == 0 else math.floor(math.log10(abs(self.value) / self.step) + 1e-9) + 1


def normalised(text: str) -> str:
    """The folded text with its number words as digits: "a year" is "1 year", "one third" 1/3, "nine hundred twenty-nine" 929."""
    from text_to_num import alpha2digit

    text = fold(text)
    text = re.sub(r"\bnone\b", "0", text)
    text = _SCALED.sub(lambda match: match[1] + _SCALES[match[2]], text)
    for words, digits in _FRACTIONS:
        text = words.sub(digits, text)
    digits = str(alpha2digit(_ARTICLE.sub("1 ", text), "en", threshold=0))
    return re.sub(r"\b1st\b", "first", digits)  # "the first 48 months" holds one number


def quantities(text: str) -> tuple[Quantity, ...]:
    """All numbers of a ``normalised`` text, in order. One of an enumeration or range has the unit that stands behind it."""
    found = [_quantity(match, text) for match in _QUANTITY.finditer(text)]
    for i in range(len(found) - 2, -1, -1):
        here, after = found[i], found[i + 1]
        between = text[here.end : after.start]
        if _SAME_UNIT.match(between) and not here.dimension:
            here = replace(here, dimension=after.dimension, factor=after.factor)
        if _RANGE.fullmatch(between) and here.value < after.value:
            here = replace(here, top=after.value)
        found[i] = here
    return tuple(sorted([*found, *_grouped(text)], key=lambda q: q.start))


def _quantity(match: re.Match[str], text: str) -> Quantity:
    raw, below = match["value"], match["below"]
    value = float(raw) / (float(below) if below and float(below) else 1.0)
    mantissa, _, power = raw.partition("e")
    step = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2])) if not below else abs(value) * 1e-9 or 1e-9
    before = text[: match.start()]
    bound = (
        "over"
        if _OVER.search(before) or text[match.end() :].startswith("+")
        else "under"
        if _UNDER.search(before)
        else ""
    )
    ordinal = match["ordinal"] is not None  # "the 27th week" counts weeks and measures none
    dimension, factor = ("", 1.0) if ordinal else _dimension(match["unit"], match["many"], match["base"])
    return Quantity(
        value, step, match.start(), match.end(), dimension, factor, HEDGE.search(before) is not None, bound
    )  # fmt: skip


def _dimension(unit: str | None, many: str | None, base: str | None) -> tuple[str, float]:
    above, factor = UNITS[unit.replace(" ", "-")] if unit else ("", 1.0)
    if not base:
        return above, factor
    below, size = UNITS[base.replace(" ", "-")]
    return f"{above}/{below}", factor / size / (float(many or 1) or 1.0)


def _grouped(text: str) -> Iterator[Quantity]:
    """Numbers whose thousands are set apart by blanks, which may as well be several numbers."""
    for match in _GROUPED.finditer(text):
        yield Quantity(float(match[0].replace(" ", "")), 1.0, match.start(), match.end())


Unit = tuple[str, float]
"""Dimension and factor."""


def asked_units(question: str) -> tuple[Unit, ...]:
    """The units that a question names for its answers: "how many weeks", "at what age", "per 100 person-years"."""
    text = fold(question)
    found = [_dimension(None, match["many"], match["base"]) for match in _RATE.finditer(text)]
    found += [_dimension(match["unit"], None, None) for match in _ASKED.finditer(text)]
    found += [UNITS[name] for word, name in ((_PERCENTAGE, "percent"), (_AGE, "year")) if word.search(text)]
    return tuple(dict.fromkeys(found))


def same(wanted: Quantity, given: Quantity, asked: Sequence[Unit] = (), hedged: bool = False) -> bool:
    """Whether ``given`` says what ``wanted`` does: the same value in an equivalent unit, or rounded.

    Args:
        wanted: of the reference.
        given: of the answer.
        asked: the units that the question names (``asked_units``), one of which is meant where ``wanted`` has none.
        hedged: the reference is itself an estimate, so that a near value will do.
    """
    if {wanted.bound, given.bound} == {"over", "under"}:
        return False
    meant = [wanted]
    if not wanted.dimension:
        bare = [wanted] if not asked or given.dimension in ("", "percent") else []
        meant = [*bare, *(replace(wanted, dimension=name, factor=size) for name, size in asked)]
    return any(_near(one, given, factor, hedged or one.hedged) for one in meant for factor in _conversions(one, given))


def _conversions(wanted: Quantity, given: Quantity) -> Iterator[float]:
    """What the number of ``given`` may be multiplied by to be in the unit of ``wanted``; nothing where the units don't agree."""
    one, other = wanted.dimension, given.dimension
    if one == other:
        yield given.factor / wanted.factor
    elif not other:
        yield 1.0
        if one == "percent":
            yield 100.0
    elif not one and other == "percent":
        yield 0.01
    elif (not one and other != "time") or (one, other) == ("fold", ""):
        yield 1.0


def _near(wanted: Quantity, given: Quantity, factor: float, hedged: bool) -> bool:
    value, step, top = given.value * factor, given.step * factor, (given.top or given.value) * factor
    off, size = abs(value - wanted.value), abs(wanted.value)
    if off <= 1e-9 * max(size, 1e-9) * 10:
        return True
    if given.hedged or hedged:
        step = max(step, _trailing_zeros(given) * factor)
    rounded = step > wanted.step and (given.digits >= 2 or given.hedged or hedged)
    if rounded and off <= step / 2 * (1 + 1e-9) and off <= ROUNDED * size:
        return True
    if not hedged or not size:
        return False
    slack = READ_OFF * 10.0 ** math.ceil(math.log10(size)) * (1 + 1e-9)
    if wanted.top is not None:
        return wanted.value - slack <= value <= wanted.top + slack
    return off <= min(slack, ROUNDED * size) or (value <= wanted.value <= top and top - value <= 10 * slack)


def _trailing_zeros(given: Quantity) -> float:
    """The step of a round number: 100 for 42,400."""
    number, step = abs(given.value), given.step
    while number and step >= 1 and number % (step * 10) == 0:
        step *= 10
    return step
