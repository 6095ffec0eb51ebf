"""NETLINK_RDMA socket: the RDMA devices of one network namespace, and changes to them.

Rules:
1. A device is requested by index. The kernel looks it up in the socket's namespace.
2. A move must be sent by a thread inside the device's namespace: the kernel compares the sender's
   namespace with the device's. To move a device to the host, enter the pod's namespace, open the
   socket there, and pass the host's descriptor as target.
3. A move may hang in the kernel while the device has users. A caller with a deadline runs it in a
   thread that may be abandoned.
"""

from errno import EINVAL, ENODEV, EOPNOTSUPP, EPROTONOSUPPORT
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.socket import NetlinkSocket, enable_strict_checks, open_socket
from dranet_nri.linux.rdma import codec, errors
from dranet_nri.linux.rdma.types import CharDev, CharDevKind, RdmaDevice, RdmaPort, RdmaSystem
from dranet_nri.model import RdmaMode

NETLINK_RDMA: Final = 20


class RdmaSocket:
    """Socket in one namespace, for one thread at a time."""

    def __init__(self, netlink: NetlinkSocket) -> None:
        """Take over a socket of NETLINK_RDMA."""
        self._netlink = netlink

    def devices(self, where: str) -> tuple[RdmaDevice, ...]:
        """Return the devices of the namespace; in shared mode all.

        Args:
            where: name of the namespace in errors.

        Raises:
            KernelError: the kernel refused.
        """
        found = self._netlink.dump(f"dump RDMA devices in {where}", codec.GET, b"")
        return tuple(map(codec.decode_device, found))

    def device_at(self, what: str, index: int) -> RdmaDevice:
        """Return the device with that index.

        Raises:
            KernelError: ENODEV: there is none here.
        """
        try:
            body = self._netlink.get(what, codec.GET, codec.encode_index(index))
        except KernelError as error:
            if error.code == EINVAL:
                raise errors.absent(error, index) from error
            raise
        return codec.decode_device(body)

    def ports(self, what: str, index: int) -> tuple[RdmaPort, ...]:
        """Return the ports of the device with that index, in order from 1.

        Raises:
            KernelError: ENODEV: there is none here.
        """
        try:
            found = self._netlink.dump(what, codec.PORT_GET, codec.encode_index(index))
        except KernelError as error:
            if error.code == EINVAL:
                raise errors.absent(error, index) from error
            raise
        return tuple(map(codec.decode_port, found))

    def system(self) -> RdmaSystem:
        """Return the settings of the machine. One cheap message: read it before each move."""
        return codec.decode_system(self._netlink.get("read the RDMA mode", codec.SYS_GET, b""))

    def char_device(
        self, what: str, kind: CharDevKind, index: int, port: int = 1
    ) -> CharDev | None:
        """Return the character device of that kind, None if there is none.

        The kernel loads the module for it if it can. Numbers change with every move.

        Args:
            what: name of the operation in errors.
            kind: kind of a device, of one of its ports (umad, issm), or of the machine (rdma_cm).
            index: index of the device.
            port: port number, for kinds with one per port.

        Raises:
            KernelError: ENODEV: no device has the index here; EINVAL: it has no such port.
        """
        request = codec.encode_char_device(kind, index, port)
        try:
            body = self._netlink.get(what, codec.GET_CHARDEV, request)
        except KernelError as error:
            if error.code == EOPNOTSUPP:
                return None
            raise self._explained(error, index, errors.CHAR_DEVICE) from error
        return codec.decode_char_device(kind, body)

    def rename(self, what: str, index: int, name: str) -> None:
        """Rename the device, unless it has the name.

        Raises:
            KernelError: ENODEV; EEXIST: the name is taken; EPERM.
            InvalidValueError: the name is invalid.
        """
        request = codec.encode_rename(index, name)
        try:
            self._netlink.do(what, codec.SET, 0, request)
        except KernelError as error:
            raise self._explained(error, index, errors.RENAME) from error

    def move(self, what: str, index: int, target_fd: int) -> None:
        """Move the device to another namespace; see the rules for the calling thread.

        Its users lose it, its character devices get new numbers; its index and name stay.

        Raises:
            KernelError: ENODEV; EOPNOTSUPP: in shared mode or not supported by the driver; EPERM;
                EBADF or EINVAL: the target is not a namespace; EEXIST: since Linux 7.3.
        """
        try:
            self._netlink.do(what, codec.SET, 0, codec.encode_move(index, target_fd))
        except KernelError as error:
            if error.code == EOPNOTSUPP:
                raise self._unsupported(error) from error
            raise self._explained(error, index, errors.MOVE) from error

    def set_mode(self, mode: RdmaMode) -> None:
        """Set the RDMA mode of the machine.

        Raises:
            KernelError: EBUSY: other network namespaces than the host's exist; EPERM.
        """
        what = f"set the RDMA mode to {mode}"
        try:
            self._netlink.do(what, codec.SYS_SET, 0, codec.encode_mode(mode))
        except KernelError as error:
            raise errors.explained(error, errors.SET_MODE) from error

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._netlink.close()

    def _unsupported(self, error: KernelError) -> KernelError:
        """Return the error with its meaning: EOPNOTSUPP is for the mode or for the driver."""
        try:
            return errors.unsupported(error, self.system().mode)
        except KernelError:
            return error

    def _explained(self, error: KernelError, index: int, meanings: errors.Remedies) -> KernelError:
        """Return the error with its meaning. The kernel returns EINVAL for an unknown index."""
        if error.code == EINVAL:
            try:
                self.device_at(error.op, index)
            except KernelError as missing:
                if missing.code == ENODEV:
                    return missing
        return errors.explained(error, meanings)


def open_here() -> RdmaSocket | None:
    """Open a socket in the calling thread's own namespace; None if the kernel has no RDMA.

    The kernel loads ib_core for the socket if it can, so it should not be opened on a node without
    RDMA hardware.

    Raises:
        KernelError: the kernel has no netlink, or is older than 4.20.
    """
    try:
        sock = open_socket(NETLINK_RDMA)
    except KernelError as error:
        if error.code == EPROTONOSUPPORT:
            return None
        raise
    enable_strict_checks(sock)
    return RdmaSocket(NetlinkSocket(sock))
