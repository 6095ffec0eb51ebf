"""Whom the admission policies of an installation ask about, as CEL has it. No server is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cel_expr_python import cel

from tests.cluster.api import Object

USER: Final = "request.userInfo.username"


def usernames(documents: Iterable[Object]) -> list[str]:
    """Return the names that the API server gives the service accounts among the documents."""
    accounts = (each["metadata"] for each in documents if each["kind"] == "ServiceAccount")
    return [f"system:serviceaccount:{each['namespace']}:{each['name']}" for each in accounts]


def asking(documents: Iterable[Object], username: str) -> list[bool]:
    """Return of each policy whether it asks about what this user writes."""
    environment: Any = cel.NewEnv(
        config=cel.NewEnvConfigFromYaml("extensions:\n- name: strings"),
        variables={USER: cel.Type("string")},
    )
    return [
        all(
            environment.compile(condition["expression"]).eval(data={USER: username}).value() is True
            for condition in each["spec"]["matchConditions"]
        )
        for each in documents
        if each["kind"] == "ValidatingAdmissionPolicy"
    ]
