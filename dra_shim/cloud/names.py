"""Names of clouds, and URLs of webhooks, as values of flags.

Flags are parsed before the shim registers; the providers are loaded after it.
"""

from typing import Final
from urllib.parse import urlsplit

from dranet_nri.errors import InvalidValueError

GCE: Final = "GCE"
AWS: Final = "AWS"
AZURE: Final = "AZURE"
OKE: Final = "OKE"
ALIBABA: Final = "ALIBABA"
COREWEAVE: Final = "CKS"
WEBHOOK: Final = "webhook"
NONE: Final = "NONE"
HINTS: Final = (GCE, AWS, AZURE, OKE, ALIBABA, COREWEAVE, WEBHOOK, NONE)


def parse_hint(text: str) -> str:
    """Return the name of a cloud in HINTS; "" is returned unchanged.

    Raises:
        InvalidValueError: the cloud is unknown.
    """
    providers = {name.lower(): name for name in HINTS}
    if text and text.lower() not in providers:
        raise InvalidValueError(f"{text!r}: must be one of {', '.join(HINTS)}")
    return providers.get(text.lower(), "")


def parse_url(text: str) -> str:
    """Return the URL of a webhook; "" is returned unchanged.

    Raises:
        InvalidValueError: the URL is neither http(s)://HOST… nor unix:///PATH.
    """
    try:
        url = urlsplit(text)
        usable = bool(url.path if url.scheme == "unix" else url.hostname)
    except ValueError:
        raise InvalidValueError(f"{text!r}: is not a URL") from None
    if text and not (usable and url.scheme in {"http", "https", "unix"}):
        raise InvalidValueError(
            f"{text!r}: must be http://HOST[:PORT], https://HOST[:PORT] or unix:///PATH"
        )
    return text
