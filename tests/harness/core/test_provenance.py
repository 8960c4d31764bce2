import pytest

from placerl.harness.core.provenance import Provenance, weakest


def test_words_are_those_of_the_design():
    assert [str(p) for p in Provenance] == ["measured", "simulated", "modelled", "published"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["measured"], "measured"),
        (["measured", "simulated", "measured"], "simulated"),
        (["modelled", "simulated"], "modelled"),
        (["published", "measured"], "published"),
    ],
)
def test_weakest(given, expected):
    assert weakest(*given) == expected
    assert weakest(*reversed(given)) == expected


def test_weakest_refuses_what_is_no_provenance():
    with pytest.raises(ValueError, match="found none"):
        weakest()
    with pytest.raises(ValueError, match="guessed"):
        weakest("measured", "guessed")
