"""Cross-checks of several documents, for the command `validate`.

Rules:
1. A request counts as one for this driver if a configuration of this driver names it, if its class
   or a selector names the driver, or if it is the only one of its claim: parameters without
   requests apply to all.
2. A class that is not among the files counts as one without parameters. An error that its
   parameters could prevent names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dra_shim.cel import (
    drivers_in,
    resembles_driver,
    unknown_attribute,
    unknown_attributes,
    unknown_capacity,
    wrong_types,
)
from dra_shim.resourceapi import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    DeviceClass,
    DeviceRequest,
    Document,
    PodClaimEntry,
    PodSpec,
    ResourceClaim,
    ResourceClaimTemplate,
    Workload,
)
from dra_shim.scheduling.allocator import NamedClaim, config_for
from dra_shim.scheduling.allocator.feasibility import too_many_devices
from dra_shim.scheduling.pod_claims import classes_of
from dranet_nri.config import SameConfig, clashes, did_you_mean, gateway_violations
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME, NetworkConfig

Claim = ResourceClaim | ResourceClaimTemplate

_DRIVER_CLASSES = (DRIVER_NAME, "dranet")  # parts of names of this driver's classes


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """Errors and warnings of several documents checked together.

    Attributes:
        wrong: titles of the documents with an error.
    """

    violations: tuple[str, ...]
    warnings: tuple[str, ...]
    wrong: frozenset[str] = frozenset()


def cross_check(documents: Sequence[Document]) -> CrossCheck:
    """Return the errors of documents that are valid alone.

    Raises:
        ConfigError: two classes with the same name differ.
    """
    classes = classes_of(documents)
    claims = [document for document in documents if isinstance(document, Claim)]
    violations: list[str] = []
    warnings: list[str] = []
    wrong: set[str] = set()
    for document in documents:
        title = title_of(document)
        found = list(_names(document))
        warnings += (f"{title}: {line}" for line in _drivers(document))
        if isinstance(document, Claim):
            found += _claim(document, classes)
        if isinstance(document, Workload):
            for pod in document.pods:
                found += _pod(document, pod, claims, classes)
                warnings += (f"{title}: {line}" for line in _without_gate(pod))
                shared = _shared(pod, document.namespace, claims, classes)
                warnings += (f"{title}: {line}" for line in shared)
        violations += (f"{title}: {line}" for line in found)
        wrong |= {title} if found else set()
    return CrossCheck(tuple(violations), tuple(warnings), frozenset(wrong))


def title_of(document: Document) -> str:
    """Return the kind and name of a document."""
    match document:
        case ResourceClaim(namespace, name) | ResourceClaimTemplate(namespace, name):
            return f"{type(document).__name__} {_full(namespace, name)}"
        case Workload(kind, namespace, name):
            return f"{kind} {_full(namespace, name)}"
        case DeviceClass(name):
            return f"DeviceClass {name}"
    return ""


def _full(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


# --------------------------------------------------------------------------- names of attributes


def _names(document: Document) -> Iterator[str]:
    """Yield unknown names and wrong types in selectors, which then never match."""
    for cel in _expressions(document):
        for line in (*unknown_attributes(cel.expression), *wrong_types(cel.expression)):
            yield f"{cel.path}: {line}"
    if isinstance(document, Claim):
        for constraint in document.spec.constraints:
            for line in unknown_attribute(constraint.attribute):
                yield f"{constraint.path}.{constraint.kind}: {line}"
        for alternative in document.spec.alternatives:
            for name, _ in alternative.capacity:
                yield from (
                    f"request {alternative.name}: {line}" for line in unknown_capacity(name)
                )


def _drivers(document: Document) -> Iterator[str]:
    """Yield a warning for each name that resembles the driver's, which is without effect."""
    named = [
        (cel.path, name) for cel in _expressions(document) for name in drivers_in(cel.expression)
    ]
    configs = document.configs if isinstance(document, DeviceClass) else ()
    configs = document.spec.configs if isinstance(document, Claim) else configs
    named += ((entry.path, entry.driver) for entry in configs)
    for path, name in dict.fromkeys(named):
        if resembles_driver(name):
            yield (
                f'{path}: "{name}" is not the name of this driver; if it is meant, write '
                f"{DRIVER_NAME}"
            )


def _expressions(document: Document) -> Iterator[Cel]:
    if isinstance(document, DeviceClass):
        yield from document.selectors
    elif isinstance(document, Claim):
        for alternative in document.spec.alternatives:
            yield from alternative.selectors


# --------------------------------------------------------------------------- one claim


def _claim(claim: Claim, classes: Mapping[str, DeviceClass]) -> Iterator[str]:
    """Yield violations of parameters; each alternative is checked alone."""
    yield from too_many_devices(claim.spec)
    found = dict.fromkeys(
        line
        for alternative in claim.spec.alternatives
        for line in clashes(list(_configured(claim.spec, [alternative], classes, "")))
    )
    certain = list(_configured(claim.spec, _certain(claim.spec), classes, ""))
    merged = (
        line
        for alternative in claim.spec.alternatives
        for line in _merged(claim.spec, alternative, classes)
    )
    yield from dict.fromkeys((*merged, *found, *clashes(certain)))


def _merged(
    spec: ClaimSpec, alternative: DeviceRequest, classes: Mapping[str, DeviceClass]
) -> Iterator[str]:
    """Yield violations of the merged parameters of class and claim for a request."""
    applied = [
        entry
        for entry in spec.configs
        if entry.driver == DRIVER_NAME and entry.applies_to(alternative.name)
    ]
    if alternative.admin_access or not applied:
        return
    name = alternative.device_class
    try:
        config = _config_for(spec, alternative, classes)
    except ConfigError as error:
        lines = error.violations
    else:
        lines = () if config.profile else tuple(gateway_violations(config))
        where = f"{applied[0].path}." if len(applied) == 1 else f"request {alternative.name}: "
        lines = tuple(f"{where}{line}" for line in lines)
    hint = "" if name in classes else f"; if DeviceClass {name} has what is missing, give its file"
    yield from (f"{line}{hint}" for line in lines)


def _requests_nic(spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> bool:
    """Return whether a request without adminAccess names this driver."""
    named_classes = _classes_of(spec, classes)
    return any(
        not alternative.admin_access and _names_driver(alternative, spec, named_classes)
        for alternative in spec.alternatives
    )


def _certain(spec: ClaimSpec) -> list[DeviceRequest]:
    """Return the requests without an alternative."""
    return [request.alternatives[0] for request in spec.requests if len(request.alternatives) == 1]


def _configured(
    spec: ClaimSpec,
    alternatives: Sequence[DeviceRequest],
    classes: Mapping[str, DeviceClass],
    where: str,
) -> Iterator[SameConfig]:
    named_classes = _classes_of(spec, classes)
    for alternative in alternatives:
        if alternative.admin_access or not _is_of_driver(alternative, spec, named_classes):
            continue
        try:
            config = _config_for(spec, alternative, classes)
        except ConfigError:  # _merged reports it
            continue
        several = alternative.all_devices or alternative.count > 1
        yield SameConfig(f"request {alternative.name}{where}", config, several=several)


def _config_for(
    spec: ClaimSpec, alternative: DeviceRequest, classes: Mapping[str, DeviceClass]
) -> NetworkConfig:
    claim = NamedClaim("", spec)
    return config_for(claim, _classes_of(spec, classes), alternative.name, first_valid=False)


def _classes_of(spec: ClaimSpec, classes: Mapping[str, DeviceClass]) -> dict[str, DeviceClass]:
    """Return the classes of a claim; an unknown one is empty."""
    names = {alternative.device_class for alternative in spec.alternatives}
    return {name: classes.get(name, DeviceClass(name)) for name in names}


def _is_of_driver(
    alternative: DeviceRequest, spec: ClaimSpec, classes: Mapping[str, DeviceClass]
) -> bool:
    return len(spec.requests) == 1 or _names_driver(alternative, spec, classes)


def _names_driver(
    alternative: DeviceRequest, spec: ClaimSpec, classes: Mapping[str, DeviceClass]
) -> bool:
    main = alternative.name.partition("/")[0]
    named = any(
        entry.driver == DRIVER_NAME and {alternative.name, main} & {*entry.requests}
        for entry in spec.configs
    )
    selectors = (*alternative.selectors, *classes[alternative.device_class].selectors)
    selected = any(DRIVER_NAME in cel.expression for cel in selectors)
    return named or selected or any(word in alternative.device_class for word in _DRIVER_CLASSES)


# --------------------------------------------------------------------------- pods


def _pod(
    workload: Workload, pod: PodSpec, claims: Sequence[Claim], classes: Mapping[str, DeviceClass]
) -> Iterator[str]:
    where = f"{pod.path}.resourceClaims" if pod.path else "resourceClaims"
    given: list[SameConfig] = []
    requests: dict[str, tuple[ClaimRequest, ...]] = {}
    for entry in pod.claims:
        claim = _claim_of(entry, workload.namespace, claims)
        if claim is None:
            yield f"{where}: {_missing(entry, claims)}"
            continue
        requests[entry.name] = claim.spec.requests
        if pod.host_network and _requests_nic(claim.spec, classes):
            yield (
                f"{pod.path}.hostNetwork: true: claim {entry.name} is for a network device, and "
                "none can be moved to the host network; remove hostNetwork, or the claim"
            )
        of = f" of claim {entry.name}"
        given += _configured(claim.spec, _certain(claim.spec), classes, of)
    if len(requests) > 1:
        yield from (f"{where}: {line}" for line in clashes(given))
    for container in pod.containers:
        for name, request in container.listed:
            line = _listing(name, request, pod, requests)
            if line:
                yield f"{pod.path}: container {container.name}: {line}"


def _shared(
    pod: PodSpec, namespace: str, claims: Sequence[Claim], classes: Mapping[str, DeviceClass]
) -> Iterator[str]:
    """Yield the claims and addresses that several pods of a workload would have."""
    if pod.copies < 2:
        return
    for entry in pod.claims:
        claim = _claim_of(entry, namespace, claims)
        if claim is None or not _requests_nic(claim.spec, classes):
            continue
        where = f"{pod.path}.resourceClaims: claim {entry.name}"
        if entry.claim:
            yield (
                f"{where}: {pod.copies} pods use ResourceClaim {entry.claim}, and a device can be "
                "in one pod only; give each its own with resourceClaimTemplateName"
            )
            continue
        configured = _configured(claim.spec, _certain(claim.spec), classes, "")
        for cidr in (cidr for nic in configured for cidr in nic.config.interface.addresses or ()):
            if "-" not in cidr:
                yield (
                    f"{where}: {pod.copies} pods have the address {cidr}; write a range such as "
                    '"10.9.1.16-10.9.1.63/24", of which each pod of a node gets one'
                )


def _claim_of(entry: PodClaimEntry, namespace: str, claims: Sequence[Claim]) -> Claim | None:
    kind = ResourceClaimTemplate if entry.template else ResourceClaim
    named = entry.template or entry.claim
    for claim in claims:
        same_place = not claim.namespace or not namespace or claim.namespace == namespace
        if isinstance(claim, kind) and claim.name == named and same_place:
            return claim
    return None


def _missing(entry: PodClaimEntry, claims: Sequence[Claim]) -> str:
    named = entry.template or entry.claim
    if not named:
        return f"claim {entry.name} needs resourceClaimName or resourceClaimTemplateName; add one"
    kind, field = ResourceClaimTemplate, "resourceClaimTemplateName"
    if not entry.template:
        kind, field = ResourceClaim, "resourceClaimName"  # type: ignore[assignment]
    other = next(
        (claim for claim in claims if claim.name == named and type(claim) is not kind), None
    )
    if other is not None:
        right = "resourceClaimName" if entry.template else "resourceClaimTemplateName"
        return f"{field} {named} is the name of a {type(other).__name__}; write {right}"
    others = {claim.name for claim in claims if isinstance(claim, kind)} - {named}
    hint = did_you_mean(named, sorted(others))
    return (
        f"no {kind.__name__} {named}{hint} of that namespace is among the files; give its file as "
        f"well, or correct {field}"
    )


def _listing(
    name: str, request: str, pod: PodSpec, requests: Mapping[str, tuple[ClaimRequest, ...]]
) -> str:
    """Return the error of an entry of a container's `resources.claims`, "" if there is none."""
    entries = [entry.name for entry in pod.claims]
    if name not in entries:
        listed = ", ".join(entries) or "none"
        hint = did_you_mean(name, entries)
        return f'lists claim "{name}"{hint}, which its pod does not have; the pod has {listed}'
    names = [request.name for request in requests.get(name, ())]
    if request and name in requests and request not in names:
        hint = did_you_mean(request, names)
        return f'lists request "{request}"{hint} of claim {name}; it has {", ".join(names)}'
    return ""


def _without_gate(pod: PodSpec) -> Iterator[str]:
    """Yield the containers that start without waiting for a claim of their pod."""
    for entry in pod.claims:
        waiting = {
            container.name
            for container in pod.containers
            if entry.name in {name for name, _ in container.listed}
        }
        for container in pod.containers:
            if container.name not in waiting and not (container.init and waiting):
                yield (
                    f"{pod.path}: container {container.name} does not list claim {entry.name}, so "
                    "it may start before its devices are there; if it uses them, add resources: "
                    f"{{claims: [{{name: {entry.name}}}]}}"
                )
