import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from placerl.harness import papers, platforms, workloads
from placerl.harness.cli.common import named_baselines
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError, closest
from placerl.harness.core.toml_models import parse_toml
from placerl.harness.mapping import Mapping
from placerl.harness.plan import tiers
from placerl.harness.profile import simulated
from placerl.harness.runtime import mapped_parts


def test_one_line_names_everything():
    error = UserError("hopper.toml", "replay.capacity", 0, "1 to 2**31")
    assert str(error) == "hopper.toml: replay.capacity: found 0; allowed: 1 to 2**31"


def test_hostile_text_stays_one_short_line():
    line = str(UserError("a\nb", "\x1b[2Jfield", "x" * 10_000, "\u2028end\r"))
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 1500


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("hoper-ddpg", "hopper-ddpg"),
        ("'hoper-ddpg'", "hopper-ddpg"),
        ("Hopper-DDPG", "hopper-ddpg"),
        ("hopper-ddpg", ""),  # what is wrong with it is not its spelling
        ("abacus", ""),
        ("hopper ddpg and more", ""),
        ("", ""),
        ("12", ""),
        ("hopper-ddpg" * 10_000, ""),
    ],
)
def test_only_a_name_that_is_much_like_one_is_taken_for_a_misspelling(typed: str, meant: str) -> None:
    assert closest(typed, ["hopper-ddpg", "cartpole-dqn", "121"]) == meant


@pytest.mark.parametrize(
    ("found", "allowed", "ending"),
    [
        ("nativ", "reference, native, torch", "; did you mean native?"),
        ("'cpuu'", "cpu or fpga:u200", "; did you mean cpu?"),
        ("full", "a full disk, or a fuller one", ""),  # prose lists no names
        (7, "1 to 6", ""),
    ],
)
def test_a_line_that_lists_names_ends_with_the_one_that_was_meant(
    found: object, allowed: str, ending: str
) -> None:
    error = UserError("a", "b", found, allowed)
    assert str(error) == f"a: b: found {found}; allowed: {allowed}{ending}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_name_that_was_meant_is_found_beyond_what_a_line_shows() -> None:
    names = [f"workload-{number}-of-many" for number in range(1000)] + ["hopper-ddpg"]
    assert str(UserError("a", "b", "hoper-ddpg", ", ".join(names))).endswith("...; did you mean hopper-ddpg?")


def test_all_names_of_a_long_list_are_shown_and_an_endless_value_is_cut() -> None:
    names = ", ".join(f"workload-{number}" for number in range(100))
    said = str(UserError("a", "b", "x" * 10_000, f"{names}, or a path that ends in .toml"))
    assert said.endswith("workload-99, or a path that ends in .toml")
    assert "found " + "x" * 300 + "...; allowed" in said


def tables(**changes: str) -> dict:
    made = parse_toml(Path(workloads.__file__).with_name("cartpole-dqn.toml").read_bytes(), "t")
    for old, new in changes.items():
        made["replay"][new] = made["replay"].pop(old)
    return made


@pytest.mark.parametrize(
    ("refused", "meant"),
    [
        (lambda: workloads.load("hoper-ddpg"), "hopper-ddpg"),
        (lambda: platforms.load("map-tpds32"), "map-tpds23"),
        (lambda: tiers.tier("standart"), "standard"),
        (lambda: named_baselines("sb3,rlib"), "rllib"),
        (lambda: simulated.checked_device("fpga:u20"), "fpga:u200"),
        (lambda: papers.claims("MPA-T5"), "MAP-T5"),
        (lambda: workloads.from_tables(tables(capacity="capacty"), "t"), "capacity"),
        (
            lambda: mapped_parts.check(workloads.load("cartpole-dqn"), Mapping.parse("natve-native-cpu")),
            "native",
        ),
        (
            lambda: mapped_parts.check(workloads.load("cartpole-dqn"), Mapping.parse("native-natve-cpu")),
            "native",
        ),
        (
            lambda: mapped_parts.check(workloads.load("cartpole-dqn"), Mapping.parse("native-native-cpuu")),
            "cpu",
        ),
    ],
)
def test_every_kind_of_misspelt_name_is_answered_with_the_one_that_was_meant(
    refused: Callable[[], object], meant: str
) -> None:
    with pytest.raises(UserError) as raised:
        refused()
    assert str(raised.value).endswith(f"; did you mean {meant}?")


def test_an_option_has_the_words_of_the_front_end() -> None:
    named = OptionName("precisions", "--precision")
    error = UserError(
        COMMAND_LINE, named, "fixd32", ("fixed32, with another ", OptionName("the_platform"), " only")
    )
    said = "found fixd32; allowed: fixed32, with another"
    assert str(error) == f"command line: --precision: {said} --the-platform only; did you mean fixed32?"
    assert str(error.in_python("map")) == f"map: precisions: {said} the_platform only; did you mean fixed32?"
    elsewhere = UserError("mine.toml", "replay.capacity", 0, ("1 with ", OptionName("actors")))
    assert str(elsewhere.in_python("map")) == "mine.toml: replay.capacity: found 0; allowed: 1 with actors"
    unlike = UserError(OptionName("actors"), "x", "floer", "floor, or any word", names=())
    assert str(unlike.in_python("compose")) == "compose: x: found floer; allowed: floor, or any word"


def test_an_error_crosses_processes_whatever_it_is_about() -> None:
    error = UserError("mine", OptionName("actors"), lambda: None, ("1 with ", OptionName("loop")))
    there = pickle.loads(pickle.dumps(error))
    assert str(there) == str(error)
    assert str(there.in_python("compose")) == str(error.in_python("compose"))
