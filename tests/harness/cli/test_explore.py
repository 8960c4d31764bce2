"""`placerl explore`: the designs that the papers chose, what fits no device, and arguments that are refused."""

import json

import pytest

from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner.fpga import pipeline, pipeline_resources
from tests.harness.cli.command_line import Placerl, refused


def test_ppo_finds_the_array_of_the_paper(placerl: Placerl) -> None:
    outcome = placerl("explore", "ppo", "Hopper", "--device", "u200")
    assert outcome.status == 0, outcome
    heading, _, columns, _, first, *_ = outcome.out.splitlines()
    assert "AMD Alveo U200" in heading
    assert "modelled" in heading
    assert columns.startswith("| P | fits | FW | BW | WU | cycles an iteration | iterations/s |")
    assert first.startswith("| 16 | yes |")  # PPO 5.2
    assert "at 285 MHz" in first


def test_ppo_in_json_has_every_array_that_was_tried(placerl: Placerl) -> None:
    outcome = placerl("explore", "ppo", "11,64,64,3", "--sides", "8,64,8", "--bits", "16", "--json")
    found = json.loads(outcome.out)
    assert {design["side"] for design in found["designs"]} == {8, 64}
    assert found["clock_hz"] == 285e6
    assert found["provenance"] == "modelled"


def test_ppo_counts_the_transfers_that_are_stated(placerl: Placerl) -> None:
    """16 x 512 steps: two transfers of each of 512 inferences, and three of each of 160 mini-batches, of 1 us each."""
    plain, slow = (
        json.loads(placerl("explore", "ppo", "Hopper", "--sides", "16", "--json", *more).out)["designs"][0]
        for more in ((), ("--link-us", "1"))
    )
    assert slow["cycles"] - plain["cycles"] == 285 * (2 * 512 + 3 * 160)
    external = ("explore", "ppo", "Pong", "--sides", "32", "--external-activations", "--json")
    fast, bound = (
        json.loads(placerl(*external, "--memory-gb-s", gb_s).out)["designs"][0]["cycles"]
        for gb_s in ("77", "0.1")
    )
    assert bound > 10 * fast


def test_map_finds_the_fastest_learner_that_fits(placerl: Placerl) -> None:
    arguments = ("explore", "map", "11,256,256,3", "--device", "u50", "--batch-size", "32")
    outcome = placerl(*arguments)
    assert outcome.status == 0, outcome
    assert "Learner pipelines on AMD Alveo U50" in outcome.out
    assert "Replay in one die: 1,048,576 leaves, K = 16, modelled" in outcome.out
    found = json.loads(placerl(*arguments, "--json").out)
    limit = pipeline_resources.available(catalogue.device("u50"))
    best = pipeline.designs({"q": (11, 256, 256, 3)}, 32, limit)[0]
    first = found["learner"][0]
    assert (first["cycles"], first["pipelines"], first["samples"]) == (
        best.formula_cycles,
        best.pipelines,
        best.samples,
    )
    assert first["resources"] == vars(best.resources)
    assert found["available"] == vars(limit)
    assert found["replay"]["banks"] >= 1


def test_a_workload_stands_for_its_network_and_algorithm(placerl: Placerl) -> None:
    named = ("explore", "map", "hopper-ddpg", "--json")
    spelt = ("explore", "map", "11,256,256,3", "--algorithm", "ddpg", "--json")
    assert placerl(*named).out == placerl(*spelt).out
    assert placerl("explore", "ppo", "hopper-ppo", "--json").status == 0
    refused(
        placerl("explore", "map", "pong-dqn"),
        "NETWORK: found pong-dqn; allowed: a workload whose network is an",
    )


def test_map_s_ddpg_has_a_critic_that_takes_the_action(placerl: Placerl) -> None:
    arguments = ("explore", "map", "4,8,8,1", "--algorithm", "ddpg", "--batch-size", "32")
    found = json.loads(placerl(*arguments, "--json").out)
    networks = found["learner"][0]["networks"]
    assert [layer["inputs"] for layer in networks["actor"]] == [4, 8, 8]
    assert [layer["inputs"] for layer in networks["critic"]] == [5, 8, 8]
    assert networks["critic"][-1]["outputs"] == 1
    assert "bound by" in placerl(*arguments).out


def test_a_device_without_a_clock_has_cycles_and_no_seconds(placerl: Placerl) -> None:
    arguments = ("explore", "map", "11,256,256,3", "--device", "agf014")
    assert "| no clock stated |" in placerl(*arguments).out
    assert json.loads(placerl(*arguments, "--json").out)["clock_hz"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ppo", "Humanoid", "--sides", "128"], "none of the arrays that were tried fits AMD Alveo U200"),
        (["map", "1,1,16384"], "no learner pipeline of 1,1,16384 fits AMD Alveo U200"),
    ],
)
def test_what_fits_nowhere_ends_with_status_1(placerl: Placerl, arguments: list[str], words: str) -> None:
    outcome = placerl("explore", *arguments)
    assert outcome.status == 1, outcome
    assert words in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ppo", "hopper"], ["NETWORK", "did you mean Hopper?"]),
        (["map", "11"], ["NETWORK", "found '11'", "two or more numbers from 1 to 16384"]),
        (["map", "11,0,3"], ["NETWORK", "found '11,0,3'"]),
        (["map", "11,3", "--device", "u20"], ["--device", "'u20'", "did you mean u200?"]),
        (["ppo", "Hopper", "--sides", "1"], ["--sides", "found 1", "2 to 512"]),
        (["ppo", "Hopper", "--sides", "8,x"], ["--sides", "found 'x'"]),
        (["ppo", "Hopper", "--bits", "8"], ["--bits", "found 8", "32, 16"]),
        (["ppo", "Pong", "--memory-us", "1"], ["--memory-us", "no --external-activations"]),
        (["ppo", "Hopper", "--device", "agf014", "--link-us", "1"], ["--device", "one with a stated clock"]),
        (["map", "11,3", "--fanout", "1"], ["--fanout", "found '1'"]),
        (["map", "11,3", "--algorithm", "ppo"], ["--algorithm", "'ppo'", "dqn, ddpg"]),
        (["map", "Pong"], ["NETWORK", "'Pong'", "no convolutions"]),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    placerl: Placerl, arguments: list[str], words: list[str]
) -> None:
    refused(placerl("explore", *arguments), *words)
