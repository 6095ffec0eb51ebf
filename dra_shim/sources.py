"""What preparing reads of the API server: each claim and pod anew, no cache between."""

from collections.abc import Mapping

from dra_shim.api import CLAIM, POD, Api, ApiError, Kind, NotFoundError
from dra_shim.api import UnavailableError as NoAnswerError
from dra_shim.prepare import UnavailableError
from dranet_nri.errors import RefusedError
from dranet_nri.model import ObjectRef


class ServerSource:
    """Claims and pods of an API server: a ClaimSource and a PodSource."""

    def __init__(self, api: Api) -> None:
        """Read from this server."""
        self._api = api

    async def claim(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """See ClaimSource."""
        return await self._read(CLAIM, ref)

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """See PodSource."""
        return await self._read(POD, ref)

    async def _read(self, kind: Kind, ref: ObjectRef) -> Mapping[str, object] | None:
        try:
            return await self._api.get(kind, ref.name, ref.namespace)
        except NotFoundError:
            return None
        except NoAnswerError as error:
            raise UnavailableError(str(error), error.after_s) from error
        except ApiError as error:
            raise RefusedError(str(error)) from error
