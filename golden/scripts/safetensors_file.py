"""Reads and writes safetensors files with the standard library alone; tensors stay raw bytes."""
import json
import pathlib
import struct


def read(path):
    """(metadata or None, {name: (dtype, shape, bytes)}) in the order of the data."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", None)
    begin = 8 + length
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        tensors[name] = (entry["dtype"], entry["shape"], data[begin + first : begin + last])
    return metadata, tensors


def write(path, tensors, metadata=None):
    """Writes the tensors back to back in the order given; the header is padded with blanks to a multiple of 8."""
    header, offset = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
