"""MAP's claims: what they read, and what measures it."""

from placerl.harness import papers


def test_claims_about_the_simulated_fpga_alone_read_no_timed_rows() -> None:
    every = {claim.key: claim for claim in papers.claims("MAP")}
    assert every["MAP-F12-linear"].reads == ("simulated_profile/hopper-ddpg",)
    assert every["MAP-F13-CartPole"].reads == ("simulated_profile/cartpole-ddpg",)
    assert every["MAP-F11-CartPole"].reads == ("profile/cartpole-ddpg", "simulated_profile/cartpole-ddpg")


def test_pong_s_curves_are_made_at_a_small_and_a_large_batch() -> None:
    (claim,) = papers.claims("MAP-F11-Pong")
    assert claim.commands == tuple(
        f"placerl profile pong-dqn --batch-size {size}{device}"
        for size in (8, 64)
        for device in ("", " --device fpga:u200")
    )
