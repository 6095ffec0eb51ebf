"""Requests covered by an installation's admission policies. CEL runs here, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cel_expr_python import cel

from tests.system.cluster.api import Object

USER: Final = "request.userInfo.username"


def usernames(documents: Iterable[Object]) -> list[str]:
    """Return the names that the API server gives the service accounts among the documents."""
    accounts = (
        document["metadata"] for document in documents if document["kind"] == "ServiceAccount"
    )
    return [
        f"system:serviceaccount:{account['namespace']}:{account['name']}" for account in accounts
    ]


def matching(documents: Iterable[Object], username: str) -> list[bool]:
    """Return, for each policy, whether it matches the requests of a user."""
    environment: Any = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("extensions:\n- name: strings"),
        variables={USER: cel.Type("string")},
    )
    return [
        all(
            environment.compile(condition["expression"]).eval(data={USER: username}).value() is True
            for condition in document["spec"]["matchConditions"]
        )
        for document in documents
        if document["kind"] == "ValidatingAdmissionPolicy"
    ]


def denied(policy: Object, request: Mapping[str, Any]) -> list[str]:
    """Return what a policy says of a request that it denies.

    Args:
        policy: of manifests/.
        asked: `request`, `object` and `oldObject`, as a server has them.
    """
    given: dict[str, Any] = {**request, "variables": {}}
    environment: Any = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("extensions:\n- name: strings\n- name: optional"),
        variables=dict.fromkeys(given, cel.Type("dyn")),
    )

    def result(expression: str) -> Any:
        return environment.compile(expression).eval(data=given).plain_value()

    for variable in policy["spec"].get("variables", ()):
        given["variables"][variable["name"]] = result(variable["expression"])
    return [
        validation["message"]
        if "message" in validation
        else result(validation["messageExpression"])
        for validation in policy["spec"]["validations"]
        if result(validation["expression"]) is not True
    ]
