"""Attribute of dranet's --filter: a struct with declared members, of which one is set.

Members have the Go names of DeviceAttribute in k8s.io/api/resource/v1. A member that is not set
reads as zero, and has() returns false for it.
"""

from functools import cache
from typing import Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from dranet_nri.model import AttributeValue

STRUCT: Final = "v1.DeviceAttribute"  # the name in error messages of dranet's compiler
MEMBERS: Final = {
    "StringValue": FieldDescriptorProto.TYPE_STRING,
    "IntValue": FieldDescriptorProto.TYPE_INT64,
    "BoolValue": FieldDescriptorProto.TYPE_BOOL,
    "VersionValue": FieldDescriptorProto.TYPE_STRING,
}


@cache
def descriptors() -> DescriptorPool:
    """Return the descriptor pool with the struct, for the CEL library."""
    package, _, name = STRUCT.partition(".")
    file = FileDescriptorProto(name="attribute.proto", package=package, syntax="proto3")
    struct = file.message_type.add(name=name)
    for number, (member, kind) in enumerate(MEMBERS.items(), 1):
        struct.oneof_decl.add(name=f"_{member}")
        struct.field.add(
            name=member, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL,
            proto3_optional=True, oneof_index=number - 1,
        )  # fmt: skip
        struct.field.add(
            name=f"{member}s", number=len(MEMBERS) + number, type=kind,
            label=FieldDescriptorProto.LABEL_REPEATED,
        )  # fmt: skip
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def attribute(value: AttributeValue, numbers: tuple[int, ...] = ()) -> Message:
    """Return the struct of a value; numbers are its IntValues, if it is a list."""
    struct = GetMessageClass(descriptors().FindMessageTypeByName(STRUCT))
    lists = {"IntValues": numbers} if numbers else {}
    match value:
        case bool():
            return struct(BoolValue=value, **lists)
        case int():
            return struct(IntValue=value, **lists)
        case str():
            return struct(StringValue=value, **lists)
        case _:
            return struct(VersionValue=value.text, **lists)
