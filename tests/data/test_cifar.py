"""CIFAR-100: what is refused of its binary archive."""

import tarfile
from pathlib import Path

from pytest import mark

from tests.data._mirror import Mirror
from tests.data._published import photograph_members, photographs, tar_gz
from tests.data._refusal import assert_refused

_FILE = "cifar-100-binary.tar.gz"
_MEMBERS = photograph_members(photographs().arrays)
_TRAIN = "cifar-100-binary/train.bin"


def _entry(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.linkname = "/etc/passwd"
    return entry


def _without(name: str) -> dict[str, bytes]:
    return {member: content for member, content in _MEMBERS.items() if member != name}


@mark.parametrize(
    ("content", "match"),
    [
        (tar_gz({"../train.bin": b""} | _MEMBERS), r"paths inside its own folder\. Found `\.\./tr"),
        (tar_gz({"a/../../b": b""} | _MEMBERS), r"paths inside its own folder\. Found `a/\.\./\."),
        (tar_gz({"/etc/train.bin": b""} | _MEMBERS), r"inside its own folder\. Found `/etc/train"),
        (tar_gz({"c:\\train.bin": b""} | _MEMBERS), r"inside its own folder\. Found `c:\\train\.b"),
        (tar_gz(_MEMBERS, _entry("train.bin", tarfile.SYMTYPE)), r"Found a link or device, `train"),
        (tar_gz(_MEMBERS, _entry("train.bin", tarfile.LNKTYPE)), r"Found a link or device, `train"),
        (tar_gz(_MEMBERS, _entry("train.bin", tarfile.FIFOTYPE)), r"Found a link or device, `tra"),
        (tar_gz(_without(_TRAIN)), r"should hold .*train\.bin.*\. Found no `train\.bin`\."),
        (tar_gz(_MEMBERS | {_TRAIN: _MEMBERS[_TRAIN][:-1]}), r"have 160 bytes\. Found 159\."),
        (tar_gz(_MEMBERS | {_TRAIN: _MEMBERS[_TRAIN] + b"\0"}), r"have 160 bytes\. Found 161\."),
        (tar_gz(_MEMBERS)[:-30], r"`cifar-100-binary\.tar\.gz` should be a complete archive\."),
        (tar_gz(_MEMBERS)[30:], r"`cifar-100-binary\.tar\.gz` should be a complete archive\."),
        (b"", r"`cifar-100-binary\.tar\.gz` should be a complete archive\."),
        (
            tar_gz(_MEMBERS | {"cifar-100-binary/fine_label_names.txt": b"apple pear"}),
            r"`fine_names` should be str of shape \(4,\)\. Found <U5 of shape \(2,\)\.",
        ),
    ],
)
def test_damaged_archives_are_refused(
    content: bytes, match: str, mirror: Mirror, folder: Path
) -> None:
    published = photographs().with_archive(_FILE, content)
    mirror.contents = published.contents
    assert_refused(published.at(mirror.url), folder, match)
    assert not (folder.parent / "train.bin").exists()
