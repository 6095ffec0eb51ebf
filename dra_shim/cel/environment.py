"""CEL environment of Kubernetes device selectors, on top of cel-expr-python.

Rules:
1. The CEL library is imported on first use, so that a process without expressions does not load it.
2. Only functions that Kubernetes provides are declared. With others, an expression would pass here
   and fail in the scheduler. Missing: string() of an address, indexOf of lists.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any, Final, Protocol

from google.protobuf.descriptor_pool import DescriptorPool

from dra_shim.cel import addresses, formats, urls
from dra_shim.cel.attribute import STRUCT, descriptors
from dra_shim.cel.values import (
    add,
    amount,
    as_integer,
    compare,
    is_quantity,
    is_semver,
    loose_semver,
    quantity,
    semver,
    subtract,
    version_part,
)

# (result type, parameter types, function); _METHODS are members, _FUNCTIONS are not.
Overload = tuple[str, tuple[str, ...], Callable[..., object]]


class CelType(Protocol):
    """A type of the CEL library."""

    def name(self) -> str:
        """Return the name in capitals; "ERROR" is the type of a failed evaluation."""


class CelValue(Protocol):
    """The result of an evaluation."""

    def type(self) -> CelType:
        """Return its type."""

    def value(self) -> object:
        """Return the Python value; after a failure, the error message."""


class CompiledExpression(Protocol):
    """A compiled expression."""

    def return_type(self) -> CelType:
        """Return the type that the compiler derived."""

    def eval(self, *, data: Mapping[str, object]) -> CelValue:
        """Evaluate the expression with these variables."""


class Environment(Protocol):
    """Variables and functions that an expression may use."""

    def compile(self, expression: str) -> CompiledExpression:
        """Compile an expression.

        Raises:
            RuntimeError: with the error message of the library.
        """


_EXTENSIONS: Final = "\n- name: ".join(
    ("extensions:", "optional", "strings", "sets", "lists", "bindings", "two-var-comprehensions")
)
_DOMAINS: Final = "map<string, map<string, dyn>>"
_SELECTOR_VARIABLES: Final = {
    "device.driver": "string",
    "device.attributes": _DOMAINS,
    "device.capacity": "map<string, map<string, map<string, dyn>>>",
    "device.allowMultipleAllocations": "bool",
}
_FILTER_VARIABLES: Final = {"attributes": f"map<string, {STRUCT}>"}

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | [bB]?[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')
      | [bB]?(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | [A-Za-z_][A-Za-z0-9_]*
      | .""",
    re.VERBOSE | re.DOTALL,
)
# A capturing group, or what may have its characters in another meaning: \Q...\E, \x, [...]
_GROUP: Final = re.compile(
    r"""\\Q.*?(?:\\E|$) | \\. | \[\^?\]?(?:\[:\^?[a-z]+:\] | \\. | [^\]\\])*\]
      | (?P<group>\((?:\?P?<\w+>|(?!\?)))""",
    re.VERBOSE | re.DOTALL,
)


@cache
def selector_environment() -> Environment:
    """Return the environment of a device selector."""
    return _environment(_SELECTOR_VARIABLES)


@cache
def filter_environment() -> Environment:
    """Return the environment of dranet's --filter."""
    return _environment(_FILTER_VARIABLES, descriptors())


def tokens_of(expression: str) -> list[str]:
    """Return the tokens of an expression, without white space and comments."""
    return [token[0] for token in _TOKEN.finditer(expression) if token["skip"] is None]


def for_library(expression: str) -> str:
    """Return the expression with optional lookups in place of what the library does not have.

    Kubernetes provides a domain of device.attributes and device.capacity without attributes as an
    empty map. The library has no map with a default value, so the lookup becomes optional:
    [?X].orValue({}). No Python function can return an optional value, so those of formats return a
    list of at most one item: named(X)[?0].
    """
    out: list[str] = []
    suffixes: list[str] = []  # of the open brackets and parentheses
    code = [""] * 4  # the last tokens that are not white space, oldest first
    for token in _TOKEN.finditer(expression):
        text = token[0]
        out.append(text)
        if token["skip"] is not None:
            continue
        if text == "[":
            looked_up = code[1:] in (["device", ".", "attributes"], ["device", ".", "capacity"])
            suffixes.append(".orValue({})" if looked_up and code[0] != "." else "")
            out.append("?" if suffixes[-1] else "")
        elif text == "(":
            optional = code[1:] == ["format", ".", "named"] or code[2:] == [".", "validate"]
            suffixes.append("[?0]" if optional else "")
        elif text == "?" and code[3] == "[" and suffixes[-1]:
            out[-1] = suffixes[-1] = ""  # already optional
        elif text in {"]", ")"}:
            out.append(suffixes.pop())
        code = [*code[1:], text]
    return "".join(out)


def _environment(
    variables: Mapping[str, str], structs: DescriptorPool | None = None
) -> Environment:
    from cel_expr_python import cel

    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}_{'of' if is_member else 'from'}_{index}",
                    cel.Type(result),
                    [cel.Type(parameter) for parameter in parameters],
                    is_member,
                    function,
                )
                for is_member, table in ((False, _FUNCTIONS), (True, _METHODS))
                for index, (result, parameters, function) in enumerate(table.get(name, ()))
            ],
        )
        for name in {**_FUNCTIONS, **_METHODS}  # "ip" is in both
    ]
    environment: Environment = cel.NewEnv(
        descriptor_pool=structs,
        config=cel.NewEnvConfigFromYaml(_EXTENSIONS),
        variables={name: cel.Type(kind) for name, kind in variables.items()},
        functions=functions,
    )
    return environment


def _find(text: str, pattern: str) -> str:
    return str(_extracted("regex.extract(text, pattern).orValue('')", text, pattern))


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    """Return the matches, without empty ones."""
    found = _extracted("regex.extractAll(text, pattern)", text, pattern)
    return [item.value() for item in (found if most < 0 else islice(found, most))]


def _extracted(expression: str, text: str, pattern: str) -> Any:  # noqa: ANN401 text or list
    """Return what an expression extracts with RE2, the regular expressions of Kubernetes."""
    # The extension would return the group of a pattern with one, and refuse several.
    whole = _GROUP.sub(lambda found: "(?:" if found["group"] else found[0], pattern)
    result = _extraction(expression).eval(data={"text": text, "pattern": whole})
    if result.type().name() == "ERROR":
        raise ValueError(f'"{pattern}" is not a regular expression of RE2; correct it')
    return result.value()


@cache
def _extraction(expression: str) -> CompiledExpression:
    """Compile an expression with an extension that selectors do not have."""
    from cel_expr_python import cel

    environment: Environment = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("extensions:\n- name: regex\n- name: optional"),
        variables={name: cel.Type("string") for name in ("text", "pattern")},
    )
    return environment.compile(expression)


def _has(items: Sequence[object], value: object) -> bool:
    """Return whether a list contains a value; a scalar attribute counts as a list of one value."""
    return any(_is(element, value) for element in items)


def _is(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other  # in Python, True == 1


_VALUE: Final = "map<string, dyn>"  # a quantity or a version
_PAIR: Final = (_VALUE, _VALUE)
_TEXT: Final = ("string",)
# The library has no overload for a value of any type, so `includes` is declared for each type.
_SCALARS: Final = ("bool", "int", "string", _VALUE)

_FUNCTIONS: Final[Mapping[str, tuple[Overload, ...]]] = {
    "quantity": ((_VALUE, _TEXT, quantity),),
    "isQuantity": (("bool", _TEXT, is_quantity),),
    "sign": (("int", (_VALUE,), lambda a: (amount(a) > 0) - (amount(a) < 0)),),
    "semver": ((_VALUE, _TEXT, semver), (_VALUE, ("string", "bool"), loose_semver)),
    "isSemver": (("bool", _TEXT, is_semver), ("bool", ("string", "bool"), is_semver)),
    "ip": ((_VALUE, _TEXT, addresses.ip),),
    "isIP": (("bool", _TEXT, addresses.is_ip),),
    "ip.isCanonical": (("bool", _TEXT, addresses.is_canonical),),
    "cidr": ((_VALUE, _TEXT, addresses.cidr),),
    "isCIDR": (("bool", _TEXT, addresses.is_cidr),),
    "url": ((_VALUE, _TEXT, urls.url),),
    "isURL": (("bool", _TEXT, urls.is_url),),
    "format.named": (("dyn", _TEXT, formats.named),),
    **{
        f"format.{name}": ((_VALUE, (), partial(formats.of_name, name)),)
        for name in formats.FORMATS
    },
}
_METHODS: Final[Mapping[str, tuple[Overload, ...]]] = {
    "compareTo": (("int", _PAIR, compare),),
    "isGreaterThan": (("bool", _PAIR, lambda a, b: compare(a, b) > 0),),
    "isLessThan": (("bool", _PAIR, lambda a, b: compare(a, b) < 0),),
    "isInteger": (("bool", (_VALUE,), lambda a: amount(a).denominator == 1),),
    # dyn, because the library compares an int with a double only if one of them is dyn.
    "asInteger": (("dyn", (_VALUE,), as_integer),),
    "asApproximateFloat": (("dyn", (_VALUE,), lambda a: float(amount(a))),),
    "add": ((_VALUE, _PAIR, add), (_VALUE, (_VALUE, "int"), add)),
    "sub": ((_VALUE, _PAIR, subtract), (_VALUE, (_VALUE, "int"), subtract)),
    "major": (("int", (_VALUE,), partial(version_part, index=0)),),
    "minor": (("int", (_VALUE,), partial(version_part, index=1)),),
    "patch": (("int", (_VALUE,), partial(version_part, index=2)),),
    "find": (("string", ("string", "string"), _find),),
    "findAll": (
        ("list", ("string", "string"), _find_all),
        ("list", ("string", "string", "int"), _find_all),
    ),
    "sum": (("dyn", ("list",), sum),),
    "min": (("dyn", ("list",), min),),
    "max": (("dyn", ("list",), max),),
    "includes": (
        *(("bool", ("list", kind), _has) for kind in _SCALARS),
        *(("bool", (one, other), _is) for one in _SCALARS for other in _SCALARS),
    ),
    "family": (("int", (_VALUE,), addresses.family),),
    "isUnspecified": (("bool", (_VALUE,), addresses.is_unspecified),),
    "isLoopback": (("bool", (_VALUE,), addresses.is_loopback),),
    "isLinkLocalMulticast": (("bool", (_VALUE,), addresses.is_link_local_multicast),),
    "isLinkLocalUnicast": (("bool", (_VALUE,), addresses.is_link_local_unicast),),
    "isGlobalUnicast": (("bool", (_VALUE,), addresses.is_global_unicast),),
    "ip": ((_VALUE, (_VALUE,), addresses.ip),),
    "masked": ((_VALUE, (_VALUE,), addresses.masked),),
    "prefixLength": (("int", (_VALUE,), addresses.prefix_length),),
    "containsIP": tuple(
        ("bool", (_VALUE, other), addresses.contains_ip) for other in ("string", _VALUE)
    ),
    "containsCIDR": tuple(
        ("bool", (_VALUE, other), addresses.contains_cidr) for other in ("string", _VALUE)
    ),
    "getScheme": (("string", (_VALUE,), urls.scheme),),
    "getHost": (("string", (_VALUE,), urls.host),),
    "getHostname": (("string", (_VALUE,), urls.hostname),),
    "getPort": (("string", (_VALUE,), urls.port),),
    "getEscapedPath": (("string", (_VALUE,), urls.escaped_path),),
    "getQuery": ((_VALUE, (_VALUE,), urls.query),),
    "validate": (("dyn", (_VALUE, "string"), formats.validate),),
    "isSorted": (("bool", ("list",), lambda items: list(items) == sorted(items)),),
}
