"""Errors meant for the person using Fusebox: each message says what is wrong and what to do about it.

    FuseboxError
    |-- UsageError            wrong option, unknown system or generator, malformed question
    |-- DocumentError         a document can't be read: encrypted, damaged, empty, not a PDF
    |-- OcrUnavailable        Tesseract, a language of it, or the layout model can't be had
    |-- CorpusError           a corpus folder is missing, damaged, or was made by another version or encoder
    |-- EncoderUnavailable    an encoder's weights or packages can't be had
    |-- Stopped               the person stopped the work
    |-- TraceError            a trace is damaged or belongs to another corpus
    `-- GeneratorError        a generator can't answer: no key, refused, cut off

Anything else that escapes is a bug.
"""

from __future__ import annotations


class FuseboxError(Exception):
    """Base class: ``str(error)`` is a sentence to show to the person."""


class UsageError(FuseboxError):
    """The request itself is wrong."""


class DocumentError(FuseboxError):
    """A source document can't be read."""


class OcrUnavailable(FuseboxError):
    """Text can't be read from pixels here."""


class CorpusError(FuseboxError):
    """A corpus folder can't be opened or is inconsistent."""


class EncoderUnavailable(FuseboxError):
    """An encoder can't be loaded here."""


class Stopped(FuseboxError):
    """The work was stopped by whoever asked for it."""


class TraceError(FuseboxError):
    """A trace can't be read or does not fit the open corpus."""


class GeneratorError(FuseboxError):
    """A generator failed to answer."""
