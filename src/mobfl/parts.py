"""Parts by name: ours, an installed package's, or `module:object` from the folder where the command runs.

NAME[:PARAMETERS], where parameters are words and NAME=VALUE with commas between: `fedprox:mu=0.01`,
`async:24,uploads=10`, `my_rules:Loudest:share=0.2`. Our names come first, then entry points of installed packages
(group `mobfl.rules`, …). In any other name a last piece that is a number or has `=` is parameters.

An object that is found may be the part itself, or a class or function that makes it: called with the parameters, and
with a `request` if it takes one. Every run makes its own parts, so that no state goes from one run to the next.
"""

import copy
import difflib
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

from mobfl.errors import EXTRAS, InputError, MissingExtraError, MobflError, PartError


@dataclass(frozen=True)
class Wish:
    """A part as it was asked for: its name, words without a name, and values by name."""

    name: str
    words: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [*self.words, *(f"{key}={said(value)}" for key, value in self.values.items())]
        return self.name + (f":{','.join(given)}" if given else "")


@dataclass(frozen=True)
class Kind:
    """A kind of part: its word, the methods of which it has at least one, and ours as NAME: `module:object`."""

    word: str
    plural: str
    methods: tuple[str, ...]
    ours: Mapping[str, str]
    also: str = ""  # what else may stand in a name's place

    @property
    def group(self) -> str:
        return f"mobfl.{self.plural}"

    def parse(self, text: str) -> Wish:
        name, parameters = self._split(text.strip())
        words, values = list[str](), dict[str, Any]()
        for piece in parameters.split(",") if parameters else ():
            key, equals, value = piece.partition("=")
            if not equals and values:
                raise InputError(f"{self.word} {text!r} must have words before NAME=VALUE, got {piece.strip()!r} after")
            if key.strip() in values:
                raise InputError(f"{self.word} {text!r} must give {key.strip()} once, got it twice")
            if equals:
                values[key.strip()] = read_value(value.strip())
            else:
                words.append(piece.strip())
        return Wish(name, tuple(words), values)

    def _split(self, text: str) -> tuple[str, str]:
        first, *rest = text.split(":")
        if first in self.ours or first in self.installed():
            return first, ":".join(rest)
        if rest and ("=" in rest[-1] or _is_number(rest[-1].partition(",")[0])):
            return ":".join([first, *rest[:-1]]), rest[-1]
        return text, ""

    def installed(self) -> dict[str, EntryPoint]:
        """The entry points of other packages, by name."""
        return {entry.name: entry for entry in _entry_points(tuple(sys.path), self.group)}

    def find(self, name: str) -> Any:
        """The object of that name; raises a sentence where there is none, or where it cannot be imported."""
        if name in self.ours:
            return _our_object(self.ours[name])
        if (entry := self.installed().get(name)) is not None:
            with_fault = f"{self.word} {name!r} of the package {entry.dist.name if entry.dist else entry.value!r}"
            return _loaded(with_fault, entry.load)
        module, colon, attribute = name.partition(":")
        if not (colon and module and attribute):
            raise InputError(self._unknown(name))
        return _loaded(f"{self.word} {name!r}", lambda: _imported(module, attribute))

    def code(self, name: str) -> dict[str, str] | None:
        """Which code a part of that name is; None for ours. It has been found before."""
        if name in self.ours:
            return None
        entry = self.installed().get(name)
        return _code_of((entry.value if entry is not None else name).partition(":")[0])

    def _unknown(self, name: str) -> str:
        known = [*self.ours, *self.installed()]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        names = f"{self.also}one of {', '.join(known)}, or MODULE:OBJECT of your own"
        return f"{self.word} must be {names}, got {name!r}{hint}"

    def build(self, wish: Wish | str, request: Any = None) -> Any:
        """The part that is wished for, newly made."""
        wish = self.parse(wish) if isinstance(wish, str) else wish
        return self.made(self.find(wish.name), wish, request)

    def made(self, found: Any, wish: Wish, request: Any = None) -> Any:
        if not isinstance(found, type) and self._is_part(found):
            if wish.words or wish.values:
                raise InputError(f"{self.word} {wish.name} must come without parameters, got {wish}")
            return copy.deepcopy(found)
        if not callable(found):
            raise InputError(f"{self.word} {wish.name!r} must have {self._needed()}, got {type(found).__name__}")
        part = self._called(found, wish, request)
        if not self._is_part(part):
            raise InputError(f"{self.word} {wish.name!r} must make something with {self._needed()}, got {part!r}")
        return part

    def _called(self, make: Callable[..., Any], wish: Wish, request: Any) -> Any:
        known = parameters_of(make)
        if wish.words:
            raise InputError(f"{self.word} {wish.name} must have parameters as NAME=VALUE, got {wish.words[0]!r}")
        if unknown := [key for key in wish.values if key not in known]:
            names = f"its parameters are {', '.join(known)}" if known else "it takes none"
            raise InputError(f"{self.word} {wish.name} has no parameter {unknown[0]}: {names}")
        if missing := [key for key, default in known.items() if default is REQUIRED and key not in wish.values]:
            raise InputError(f"{self.word} {wish.name} must be given {missing[0]}, as {wish.name}:{missing[0]}=…")
        for key, value in wish.values.items():
            if isinstance(known[key], int | float) and not _is_like(known[key], value):
                raise InputError(f"{self.word} {wish.name} must have a number for {key}, got {said(value)!r}")
        try:
            return make(*[request] * takes_request(make), **wish.values)
        except MobflError:
            raise
        except Exception as error:
            raise PartError(f"{self.word} {wish.name} could not be made: {type(error).__name__}: {error}") from error

    def _is_part(self, found: Any) -> bool:
        return any(callable(getattr(found, method, None)) for method in self.methods)

    def _needed(self) -> str:
        return "the method " + " or ".join(self.methods)


REQUIRED = inspect.Parameter.empty
_REQUEST = "request"


def takes_request(make: Callable[..., Any]) -> bool:
    return _REQUEST in _signature(make)


def parameters_of(make: Callable[..., Any]) -> dict[str, Any]:
    """What a class or function can be given by name, with defaults; `REQUIRED` where there is none."""
    varied = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: each.default
        for name, each in _signature(make).items()
        if name != _REQUEST and each.kind not in varied and not name.startswith("_")
    }


def _signature(make: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(make).parameters
    except (TypeError, ValueError):  # of what is not written in Python
        return {}


def read_value(text: str) -> Any:
    """A number where it is one, true and false, otherwise the text itself."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _is_like(number: float, value: Any) -> bool:
    """Whether a value can take this number's place; true and false can only take each other's."""
    return isinstance(value, int | float) and (isinstance(number, bool) or not isinstance(value, bool))


def _is_number(text: str) -> bool:
    return isinstance(read_value(text.strip()), int | float)


def said(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _our_object(place: str) -> Any:
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise MissingExtraError(*EXTRAS[error.name]) from None


def _imported(module: str, attribute: str) -> Any:
    here = os.getcwd()  # noqa: PTH109
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # it is there, and misses something itself
        raise _NothingThereError(f"there is no module {module!r} in {here} or among what is installed") from None
    if not hasattr(found, attribute):
        near = difflib.get_close_matches(attribute, dir(found), n=1)
        hint = f"; did you mean {module}:{near[0]}?" if near else ""
        raise _NothingThereError(f"the module {module} has no {attribute!r}{hint}")
    return getattr(found, attribute)


class _NothingThereError(Exception):
    """The name leads nowhere."""


def _loaded(what: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except _NothingThereError as error:
        raise InputError(f"{what} cannot be found: {error}") from None
    except MobflError:
        raise
    except Exception as error:  # its own code failed, and nobody else's
        place = _last_place(error)
        raise PartError(f"{what} cannot be imported: {type(error).__name__}: {error}{place}") from error


def _last_place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"


def provenance(part: Any) -> dict[str, str] | None:
    """Which code a part is that somebody made himself; None for ours."""
    return _code_of(type(part).__module__)


def _code_of(module: str) -> dict[str, str] | None:
    """A package with its version, or a file with its digest."""
    top = module.partition(".")[0]
    if top == "mobfl":
        return None
    from importlib.metadata import version

    if owners := _packages(tuple(sys.path)).get(top):
        return {"package": owners[0], "version": version(owners[0])}
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return {"module": module}
    return {"file": Path(file).name, "sha256": hashlib.sha256(Path(file).read_bytes()).hexdigest()}


# Both read what every installed package says of itself: for a short run that would take longer than the run.
@cache
def _entry_points(_path: tuple[str, ...], group: str) -> EntryPoints:
    return entry_points(group=group)


@cache
def _packages(_path: tuple[str, ...]) -> Mapping[str, list[str]]:
    from importlib.metadata import packages_distributions

    return packages_distributions()
