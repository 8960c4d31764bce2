"""The committed page of figures about CPU, GPU and FPGA."""

import re

from placerl.harness.papers.device_figures import by_figure
from placerl.harness.report import devices_markdown, headline

VERDICTS = (headline.ROOT / headline.VERDICTS).read_text(encoding="utf-8")
PAGE = (headline.ROOT / headline.DEVICES).read_text(encoding="utf-8")


def test_the_committed_page_has_every_figure_with_its_verdicts() -> None:
    verdicts = dict(re.findall(r"^\| ([A-Z]{3}-\S+) \| .+? \| ([a-z ]+) \|", VERDICTS, re.MULTILINE))
    for some in by_figure():
        section = PAGE.partition(f"\n## {some[0].paper} {some[0].place}\n")[2].partition("\n## ")[0]
        said = dict(re.findall(r"^- ([A-Z]{3}-\S+): .*: \*\*([a-z ]+)\*\*(?:$| with)", section, re.MULTILINE))
        assert said == {claim.key: verdicts[claim.key] for claim in some}, "as over all evidence"
        assert "| CPU | GPU | FPGA | best here | the paper says |" in section
        for name in re.findall(r"\(\.\./pictures/(\S+)\)", section):
            assert (headline.ROOT / devices_markdown.PICTURES / name).exists()


def test_the_committed_page_has_numbers_of_a_gpu_that_few_readers_have() -> None:
    for figure in (  # not Fig. 12: no GPU's trees of K = 2, as MAP's are, are committed
        "MAP VII-C, Fig. 11",
        "MAP VII-D, Table V",
        "PRL 6.2, Fig. 6",
        "PPO 5.3.1",
    ):
        assert "NVIDIA H" in PAGE.partition(f"\n## {figure}")[2].partition("\n## ")[0]
