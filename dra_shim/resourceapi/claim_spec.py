"""`spec.devices` of a claim, and the fields that a class has too.

The limits are those of k8s.io/api/resource. One is stricter: count 0 is rejected, because the API
server silently changes it to 1.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from dra_shim.cel import SelectorError, compile_selector, wrong_reference
from dra_shim.resourceapi.requirements import capacity, tolerations
from dra_shim.resourceapi.types import Cel, ClaimRequest, ClaimSpec, Constraint, DeviceRequest
from dranet_nri.config import (
    MAX_PARAMETERS,
    ConfigEntry,
    ConfigSource,
    Node,
    parse_network_config,
)
from dranet_nri.config.json_cursor import Fields, given, items_of, required, required_text
from dranet_nri.config.policy import own_policy
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME
from dranet_nri.model.api_names import parse_driver, parse_label, parse_qualified, parse_subdomain

TOO_LONG: Final = f"is longer than {MAX_PARAMETERS} bytes as JSON; shorten it"
MAX_DEVICES: Final = 32  # AllocationResultsMaxSize
_MAX_LIST: Final = 32  # requests, constraints, config, selectors
_MAX_SUBREQUESTS: Final = 8  # FirstAvailableDeviceRequestMaxSize

_DEVICES: Final = ("requests", "constraints", "config")
_SUBREQUEST: Final = (
    *("deviceClassName", "selectors", "allocationMode", "count"),
    *("tolerations", "capacity"),
)
_EXACTLY: Final = (*_SUBREQUEST, "adminAccess")


def claim_spec(node: Node, *, flat: bool) -> ClaimSpec:
    """Read `spec` of a claim; flat requests are those of v1beta1."""
    own = node.fields(("devices",), (*_DEVICES, "spec"))
    report_misplaced(own, _DEVICES, "spec.devices")
    if "spec" in own:
        own["spec"].report(
            "only a ResourceClaimTemplate has a spec in its spec; move its fields up"
        )
    devices = own.get("devices")
    if devices is None:
        return ClaimSpec()
    fields = devices.fields(_DEVICES)
    requests = _requests(fields["requests"], flat=flat) if "requests" in fields else ()
    alternatives = ClaimSpec(requests).alternatives
    names = {request.name for request in requests} | {request.name for request in alternatives}
    return ClaimSpec(
        requests=requests,
        constraints=tuple(_constraints(fields, names)),
        configs=configs(fields, ConfigSource.CLAIM, names),
    )


def report_misplaced(fields: Fields, names: Collection[str], place: str) -> None:
    """Report the named fields, which belong one level below."""
    for name in names:
        if name in fields:
            fields[name].report(f"belongs under {place}; move it there")


def selectors(fields: Fields) -> tuple[Cel, ...]:
    """Read `selectors` of a request or a class."""
    found = (_selector(item) for item in items_of(fields, "selectors", _MAX_LIST))
    return tuple(cel for cel in found if cel is not None)


def configs(
    fields: Fields, source: ConfigSource, requests: Collection[str] | None
) -> tuple[ConfigEntry, ...]:
    """Read `config` of a claim or, without requests, of a class."""
    found = (_config(item, source, requests) for item in items_of(fields, "config", _MAX_LIST))
    return tuple(entry for entry in found if entry is not None)


# --------------------------------------------------------------------------- requests


def _requests(node: Node, *, flat: bool) -> tuple[ClaimRequest, ...]:
    found: list[ClaimRequest] = []
    for item in node.items(_MAX_LIST):
        request = _request(item, flat=flat)
        if request is None:
            continue
        if any(request.name == other.name for other in found):
            item.report("the name of a request must be unique in the claim; rename one")
        found.append(request)
    return tuple(found)


def _request(node: Node, *, flat: bool) -> ClaimRequest | None:
    _explain_version(node, flat=flat)
    own = _EXACTLY if flat else ("exactly",)
    # Fields of the other API version were reported above.
    fields = node.fields(("name", "firstAvailable", *_EXACTLY, "exactly"))
    name = required(node, fields, "name")
    if name is None or name.parsed(parse_label) is None:
        return None
    title = str(name.value)
    given = [field for field in own if field in fields]
    if "firstAvailable" in fields:
        if given:
            node.report(f"has firstAvailable and {', '.join(given)}; keep one")
        return ClaimRequest(title, _subrequests(fields["firstAvailable"], title))
    if flat:
        return ClaimRequest(title, (_device_request(node, fields, title),))
    if "exactly" not in fields:
        node.report("needs exactly or firstAvailable; add one")
        return None
    inner = fields["exactly"]
    return ClaimRequest(title, (_device_request(inner, inner.fields(_EXACTLY), title),))


def _explain_version(node: Node, *, flat: bool) -> None:
    """Report a request in the form of another API version."""
    for field, child in node.entries().items():
        if flat and field == "exactly":
            child.report("v1beta1 has no exactly; move its fields up, or use apiVersion v1")
        if not flat and field in _EXACTLY:
            child.report("belongs under exactly; only v1beta1 has it directly in the request")


def _subrequests(node: Node, request: str) -> tuple[DeviceRequest, ...]:
    items = node.items(_MAX_SUBREQUESTS)
    if node.value == []:
        node.report("needs at least one subrequest")
    found: list[DeviceRequest] = []
    for item in items:
        fields = item.fields(("name", *_SUBREQUEST))
        name = required(item, fields, "name")
        if name is None or name.parsed(parse_label) is None:
            continue
        title = f"{request}/{name.value}"
        if any(title == other.name for other in found):
            item.report("the name of a subrequest must be unique in its request; rename one")
        found.append(_device_request(item, fields, title))
    return tuple(found)


def _device_request(node: Node, fields: Fields, title: str) -> DeviceRequest:
    all_devices = _is_all(fields)
    return DeviceRequest(
        name=title,
        device_class=required_text(node, fields, "deviceClassName", parse_subdomain),
        selectors=selectors(fields),
        count=_count(fields, all_devices=all_devices),
        all_devices=all_devices,
        admin_access=bool(given(fields, "adminAccess", Node.boolean)),
        capacity=tuple(given(fields, "capacity", capacity) or ()),
        tolerations=tolerations(fields),
    )


def _is_all(fields: Fields) -> bool:
    if "allocationMode" not in fields:
        return False
    mode = fields["allocationMode"].text()
    if mode not in {None, "", "ExactCount", "All"}:
        fields["allocationMode"].report("must be ExactCount or All")
    return mode == "All"


def _count(fields: Fields, *, all_devices: bool) -> int:
    if "count" not in fields:
        return 1
    if all_devices:
        fields["count"].report("not possible with allocationMode All; remove one")
        return 1
    return fields["count"].integer(1, MAX_DEVICES) or 1


def _selector(node: Node) -> Cel | None:
    cel = required(node, node.fields(("cel",)), "cel")
    if cel is None:
        return None
    expression = required(cel, cel.fields(("expression",)), "expression")
    text = expression.text() if expression else None
    if expression is None or text is None:
        return None
    if not text.strip():
        expression.report("must not be empty; write true to select every device")
        return None
    try:
        compile_selector(text)
    except SelectorError as error:
        # An expression in a stored document was accepted by the server; it fails where it is used.
        if not node.findings.newer:
            expression.report(wrong_reference(text) or error.reason)
            return None
    mistaken = wrong_reference(text)
    if mistaken and not node.findings.newer:
        expression.report(mistaken)
    return Cel(text, expression.path)


# --------------------------------------------------------------------------- constraints, configs


def _constraints(fields: Fields, names: Collection[str]) -> Iterator[Constraint]:
    for item in items_of(fields, "constraints", _MAX_LIST):
        inner = item.fields(("requests", "matchAttribute", "distinctAttribute"))
        requests = _named_requests(inner, names)
        kinds = [kind for kind in ("matchAttribute", "distinctAttribute") if kind in inner]
        if len(kinds) != 1:
            item.report("needs matchAttribute or distinctAttribute, one of them")
            continue
        attribute = inner[kinds[0]].parsed(parse_qualified)
        if attribute is not None:
            distinct = kinds[0] == "distinctAttribute"
            yield Constraint(attribute, requests, distinct=distinct, path=item.path)


def _named_requests(fields: Fields, names: Collection[str]) -> tuple[str, ...]:
    found: list[str] = []
    for item in items_of(fields, "requests", _MAX_LIST):
        name = item.text()
        if name is None:
            continue
        if name not in names:
            item.report(f"no such request; the claim has {', '.join(sorted(names)) or 'none'}")
        if name in found:
            item.report("given twice; keep one")
        found.append(name)
    return tuple(found)


def _config(
    node: Node, source: ConfigSource, requests: Collection[str] | None
) -> ConfigEntry | None:
    fields = node.fields(("opaque",) if requests is None else ("requests", "opaque"))
    names = _named_requests(fields, requests or ())
    opaque = required(node, fields, "opaque")
    if opaque is None:
        return None
    inner = opaque.fields(("driver", "parameters"))
    driver = required_text(opaque, inner, "driver", parse_driver)
    parameters = required(opaque, inner, "parameters")
    if not driver or parameters is None:
        return None
    value = parameters.value
    if not isinstance(value, dict):
        parameters.report("must be an object")
        return None
    if is_too_long(value):
        parameters.report(TOO_LONG)
        return None
    entry = ConfigEntry(source, driver, value, names, parameters.path)
    if driver == DRIVER_NAME:
        _check_network_config(parameters)
        if source is ConfigSource.CLAIM:
            for line in own_policy(value, parameters.path):
                parameters.findings.add(parameters.position, line)
    return entry


def is_too_long(parameters: Mapping[str, object]) -> bool:
    """Return whether the parameters exceed the limit of the API server."""
    raw = json.dumps(parameters, ensure_ascii=False, separators=(",", ":"), default=str)
    return len(raw.encode(errors="surrogatepass")) > MAX_PARAMETERS


def _check_network_config(parameters: Node) -> None:
    try:
        parse_network_config(parameters.value, parameters.path, entry=True)
    except ConfigError as error:
        for line in error.violations:
            parameters.findings.add(parameters.position, line)
