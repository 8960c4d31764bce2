"""The published numbers that FIX's claims name."""

from placerl.harness.papers.fix.claims import CLAIMS


def test_a_step_s_shares_are_those_of_the_smallest_and_the_largest_batch() -> None:
    (claim,) = (claim for claim in CLAIMS if claim.key == "FIX-F9")
    assert [(number.quantity, number.value) for number in claim.published[1:]] == [
        ("B = 64: Python environment, share", 0.414),
        ("B = 64: accelerator, share", 0.242),
        ("B = 512: Python environment, share", 0.161),
        ("B = 512: accelerator, share", 0.692),
    ]
