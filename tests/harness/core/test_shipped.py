from placerl.harness.core.shipped import INSTALLED, shipped


def test_a_working_copy_has_them_next_to_its_packages() -> None:
    assert not INSTALLED
    assert (shipped("results", "papers") / "text.csv").is_file()
    assert (shipped("baselines") / "job_loop.py").is_file()
