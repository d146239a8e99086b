"""What the fuzzer shares with the tests of commands."""

from tests.cli.conftest import allotment as allotment
