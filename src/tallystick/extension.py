"""Extensions: optional capabilities. Each is a package that registers one `Extension` value.

The core names no extension. It asks `installed()` for the contributions: the packages below `tallystick.extensions`,
and those of other distributions, which name theirs by an entry point of the group `tallystick.extensions`.

Contributions are references ("package.module:name"), so that a process imports only what its command needs.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, get_args

import msgspec

from tallystick.errors import NotFound

GROUP = "tallystick.extensions"
MODULE = "extension"
"""The module of a package of ours that has the value: importing another module of it does not import the contract."""
ATTRIBUTE = "EXTENSION"

NO_EXTENSION_HINT = "'tallystick doctor' names extensions that were left out, and why"

logger = logging.getLogger(__name__)


class Command(msgspec.Struct, frozen=True):
    """A word of the command line."""

    run: str
    """Refers to the function, or to the Typer of a group of commands."""
    is_first: bool = False
    """Whether `--help` lists it before the commands of the core."""


class Source(msgspec.Struct, frozen=True):
    """A program whose files `import --from` reads."""

    name: str
    reads: str
    """What to name as PATH."""
    module: str
    """Has the functions of an importer."""


class Form(msgspec.Struct, frozen=True):
    """A format that `export --as` writes besides our own."""

    name: str
    writes: str
    module: str
    is_directory: bool = False
    needs_project: bool = False


class Vocabulary(msgspec.Struct, frozen=True):
    """A toolset, which is built in a process that needs one of its tools."""

    build: str
    """Refers to a function of an `app.context.AppContext` that returns the toolset."""
    summary: str
    """One line for the server's instructions while it is off."""
    order: int = 100
    """Toolsets are listed by this number, those with the same number by name."""
    is_listed: bool = True
    """False: for programs that know its tools; see `Toolset.is_listed`."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page for people, drawn if an extension draws pages (`Extension.site`)."""

    path: str
    """Its JSON is at the same path with `.json`."""
    title: str
    """In the navigation."""
    view: str
    """Refers to a coroutine function of an `app.context.Visit` that returns a Struct."""
    template: str
    """A file in the directory of the module of `view`: Jinja, with the Struct as `view`. It extends 'page.html'."""
    section: str = "Memory"
    """The section of the navigation."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part that an extension adds to a page that exists without it."""

    page: str
    """The path of the page, as its extension has it: "/entities/{id:path}"."""
    view: str
    """Refers to a coroutine function of an `app.context.Visit` and of the view of the page, which returns a Struct.
    The JSON of the page has its fields too."""
    template: str
    """As that of a `Page`, for a section."""


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    commands: Mapping[str, Command] = {}
    handlers: Mapping[str, str] = {}
    """Options of core commands and tools that an extension carries out, by name: `import --from`."""
    sources: Sequence[Source] = ()
    """In the order in which `--from auto` guesses: the more exactly one is recognised, the earlier."""
    forms: Sequence[Form] = ()
    checks: Sequence[str] = ()
    """Refer to functions of the settings that yield findings for `doctor`."""
    logs: Mapping[str, str] = {}
    """By the scheme of `log_url`: refers to an `operations.shared_logs.SharedLog`."""
    projections: Sequence[str] = ()
    """Refer to `projections.registry.Registered` values."""
    toolsets: Mapping[str, Vocabulary] = {}
    indexes: Mapping[str, Sequence[str]] = {}
    """By the name of a toolset: refer to the derived indexes that its tools read, to be built before the first call."""
    entity_rules: Sequence[str] = ()
    """Refer to mappings of a node's type to a `toolsets.entity_rules.EntityRule`."""
    reserved_paths: Sequence[str] = ()
    """Refer to functions of the settings that return the paths that tools for files must not reach."""
    routes: Sequence[str] = ()
    """Refer to functions of an `app.context.AppContext` that return routes of HTTP."""
    proofs: str = ""
    """Refers to a value that fulfils `app.proving.Proofs`: it signs the log, and proves what is in it."""
    open_paths: str = ""
    """Refers to a function of the settings that returns the beginnings of paths of its routes that need no token."""
    site: str = ""
    """Refers to a function of an `app.context.AppContext` that returns `server.pages.Pages`, or None if they are off.
    One extension may draw the pages."""
    pages: Sequence[Page] = ()
    parts: Sequence[Part] = ()
    around_serving: str = ""
    """Refers to a function of an `app.context.AppContext` that returns an async context manager. A server enters it
    before it answers the first call, and leaves it when it stops."""
    copies: Sequence[str] = ()
    """Refer to `operations.copies.CopyHolder` values: how forget, redactions and pages reach copies outside the
    directory of a memory."""
    gauges: Sequence[str] = ()
    """Refer to functions of the settings that return the readings of their `telemetry.metrics.Gauge`s."""


Field = Literal[
    "around_serving",
    "checks",
    "copies",
    "entity_rules",
    "gauges",
    "open_paths",
    "projections",
    "proofs",
    "reserved_paths",
    "routes",
    "site",
]
"""Fields of an extension that refer to objects which the core loads."""


class Fault(msgspec.Struct, frozen=True):
    """An extension or one of its contributions that is left out, and why."""

    name: str
    reason: str


class Installed(msgspec.Struct, frozen=True):
    extensions: tuple[Extension, ...]
    faults: tuple[Fault, ...] = ()

    def commands(self) -> dict[str, Command]:
        return {name: command for each in self.extensions for name, command in each.commands.items()}

    def sources(self) -> list[Source]:
        return [source for each in self.extensions for source in each.sources]

    def forms(self) -> list[Form]:
        return [form for each in self.extensions for form in each.forms]

    def toolsets(self) -> list[tuple[str, Vocabulary]]:
        """Return name and vocabulary in the order in which they are listed."""
        contributed = [pair for each in self.extensions for pair in each.toolsets.items()]
        return sorted(contributed, key=lambda pair: (pair[1].order, pair[0]))

    def logs(self) -> dict[str, str]:
        return {scheme: reference for each in self.extensions for scheme, reference in each.logs.items()}

    def indexes(self) -> dict[str, Sequence[str]]:
        return {name: references for each in self.extensions for name, references in each.indexes.items()}

    def load(self, field: Field) -> Iterator[Any]:
        """Yield the objects that a field of every extension refers to. One at fault is left out, and logged."""
        for name, found in self._loaded(field):
            if isinstance(found, Exception):
                logger.warning("%s of the extension '%s' is left out: %s", field, name, found)
            else:
                yield found

    def broken(self) -> list[Fault]:
        """Return the contributions that `load` leaves out."""
        fields = get_args(Field)
        loaded = [(name, field, each) for field in fields for name, each in self._loaded(field)]
        return [Fault(f"{field} of {name}", str(each)) for name, field, each in loaded if isinstance(each, Exception)]

    def _loaded(self, field: Field) -> Iterator[tuple[str, Any]]:
        for each in self.extensions:
            references = getattr(each, field)
            for reference in filter(None, [references] if isinstance(references, str) else references):
                try:
                    contribution = load(reference)
                except Exception as error:
                    contribution = error
                yield each.name, contribution

    def site(self) -> Callable[..., Any] | None:
        """Return the function that makes the pages, if an extension draws them."""
        return next(self.load("site"), None)

    def pages(self) -> list[Page]:
        return [page for each in self.extensions for page in each.pages]

    def parts(self, page: str) -> list[Part]:
        """Return those of a page, by its path."""
        return [part for each in self.extensions for part in each.parts if part.page == page]

    def find_handler(self, option: str) -> Any | None:
        return next((load(each.handlers[option]) for each in self.extensions if option in each.handlers), None)

    def handler(self, option: str) -> Any:
        """Return what carries out an option of a core command or tool. Raises NotFound."""
        if (handler := self.find_handler(option)) is not None:
            return handler
        raise NotFound(
            f"no extension that is installed carries out '{option}'",
            code="NO_EXTENSION",
            hint=NO_EXTENSION_HINT,
        )


def load(reference: str) -> Any:
    """Return the object that "package.module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


@cache
def installed() -> Installed:
    """Return the extensions of this installation. One that is at fault is left out, and logged."""
    extensions: list[Extension] = []
    faults: list[Fault] = []
    for name, reference in _references():
        try:
            extension = load(reference)
            _check(extension, extensions)
        except Exception as error:
            logger.warning("the extension '%s' is left out: %s", name, error)
            faults.append(Fault(name, str(error) or type(error).__name__))
        else:
            extensions.append(extension)
    return Installed(tuple(extensions), tuple(faults))


def _references() -> Iterator[tuple[str, str]]:
    """Yield name and reference of each: ours, then those of other distributions."""
    try:
        ours = import_module(GROUP)
    except ImportError:
        pass
    else:
        for each in pkgutil.iter_modules(ours.__path__):
            yield each.name, f"{GROUP}.{each.name}.{MODULE}:{ATTRIBUTE}"
    for other in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        yield other.name, other.value


def _check(extension: object, others: Sequence[Extension]) -> None:
    if not isinstance(extension, Extension):
        raise TypeError(f"it is a {type(extension).__name__}, not an Extension")
    for other in others:
        if other.name == extension.name:
            raise ValueError(f"there is an extension '{other.name}' already")
        if taken := [word for word in extension.commands if word in other.commands]:
            raise ValueError(f"the command '{taken[0]}' is that of the extension '{other.name}'")
        if taken := [name for name in extension.toolsets if name in other.toolsets]:
            raise ValueError(f"the toolset '{taken[0]}' is that of the extension '{other.name}'")
        if taken := [page.path for page in extension.pages if page.path in {each.path for each in other.pages}]:
            raise ValueError(f"the page '{taken[0]}' is that of the extension '{other.name}'")
        if extension.site and other.site:
            raise ValueError(f"the pages are drawn by the extension '{other.name}'")
