import csv
import re
import tomllib
from pathlib import Path

import pytest

from placerl.harness import platforms
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.toml_models import check
from placerl.harness.platforms.machine import Accelerator, Link
from placerl.harness.platforms.this_machine import describe
from placerl.primitives.fpga.devices import catalogue

FILES = Path(platforms.__file__).parent
PAPERS = Path(__file__).parents[3] / "results" / "papers"


def tables():
    return tomllib.loads((FILES / "map-tpds23.toml").read_text())


@pytest.mark.parametrize("path", FILES.glob("*.toml"), ids=lambda path: path.stem)
def test_shipped_platforms_load_under_their_names(path):
    assert platforms.load(path.stem).name == path.stem
    assert platforms.load(path).name == path.stem


def test_map_platform_agrees_with_the_transcribed_table():
    platform = platforms.load("map-tpds23")
    fields = {"bandwidth": "memory_gb_s", "SRAM": "last_level_cache_mb", "performance": "peak_tops"}
    compared = 0
    with (PAPERS / "map_table_4.csv").open() as file:
        for row in csv.DictReader(file):
            field = next((f for word, f in fields.items() if word.lower() in row["row"].lower()), None)
            if field:
                number = getattr(platform.find(row["column"].lower()), field)
                assert number.value == float(row["value"])
                assert number.provenance == Provenance.PUBLISHED
                assert "MAP Table IV" in number.source
                compared += 1
    assert compared == 9
    assert platform.link_gb_s("gpu", "cpu").value == 16


def test_missing_links_and_devices_are_no_numbers():
    platform = platforms.load("map-tpds23")
    assert platform.find("gpu").watts is None
    with pytest.raises(KeyError):
        platform.link_gb_s("gpu", "fpga")
    with pytest.raises(KeyError):
        platform.find("tpu")


def drop_link(t):
    t["link"].pop()


def rename_end(t):
    t["link"][0]["between"] = ["cpu", "tpu"]


def repeat_link(t):
    t["link"].append({**t["link"][0], "between": ["gpu", "cpu"]})


def bandwidth_within_a_memory(t):
    t["link"].append({**t["link"][0], "between": ["gpu", "gpu"]})


def repeat_key(t):
    t["device"][2]["key"] = "gpu"


def drop_host(t):
    t["device"][0]["key"] = "host"


def no_source(t):
    del t["link"][0]["gb_s"]["source"]


def empty_source(t):
    t["link"][0]["gb_s"]["source"] = ""


def zero_watts(t):
    t["device"][0]["watts"] = {"value": 0, "provenance": "published", "source": "x"}


def tiny_watts(t):
    t["device"][0]["watts"] = {"value": 1e-320, "provenance": "published", "source": "x"}


def huge_bandwidth(t):
    t["device"][0]["memory_gb_s"]["value"] = 1e308


def half_a_core(t):
    t["device"][0]["cores"]["value"] = 0.5


def cores_and_a_half(t):
    t["device"][0]["cores"]["value"] = 1.5


def guessed(t):
    t["device"][0]["memory_gb_s"]["provenance"] = "guessed"


def untyped_peak(t):
    del t["device"][1]["peak_type"]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (drop_link, "link: found none between 'cpu' and 'fpga'; allowed: a link from each device"),
        (rename_end, r"link\[0\].between: found 'tpu'; allowed: the devices cpu, gpu, fpga"),
        (repeat_link, r"link\[2\].between: .* allowed: each pair once"),
        (bandwidth_within_a_memory, r"link\[2\].gb_s: found 16.*; allowed: .* memory_gb_s of device 'gpu'"),
        (repeat_key, r"device\[2\].key: found 'gpu'; allowed: each key once"),
        (drop_host, "device: .* allowed: a device with the key 'cpu'"),
        (no_source, r"link\[0\].gb_s.source: found nothing"),
        (empty_source, r"link\[0\].gb_s.source: found ''"),
        (zero_watts, r"device\[0\].watts.value: found 0; allowed: greater than or equal to "),
        (tiny_watts, r"device\[0\].watts.value: found 1e-320; allowed: greater than or equal to "),
        (huge_bandwidth, r"memory_gb_s.value: found 1e\+308; allowed: less than or equal to 1000000000"),
        (half_a_core, r"device\[0\].cores.value: found 0.5; allowed: a multiple of 1"),
        (cores_and_a_half, r"device\[0\].cores.value: found 1.5; allowed: a multiple of 1"),
        (guessed, r"device\[0\].memory_gb_s.provenance: found 'guessed'; allowed: .*published"),
        (untyped_peak, r"device\[1\].peak_type"),
    ],
)
def test_a_wrong_file_is_one_line(spoil, line):
    spoiled = tables()
    spoil(spoiled)
    with pytest.raises(UserError, match=line) as caught:
        check(platforms.PlatformFile, spoiled, "mine.toml")
    assert len(str(caught.value).splitlines()) == 1


def test_numbers_at_their_bounds_are_accepted():
    spoiled = tables()
    spoiled["device"][0]["watts"] = {"value": 1e-6, "provenance": "measured", "source": "x"}
    spoiled["device"][0]["cores"]["value"] = 1
    host = check(platforms.PlatformFile, spoiled, "mine.toml").find("cpu")
    assert (host.watts.value, host.watts.provenance, host.cores.value) == (1e-6, Provenance.MEASURED, 1)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(UserError, match=r"this-machine, .*map-tpds23"):
        platforms.load("nonesuch")


def test_this_machine():
    platform = platforms.load("this-machine")
    host = platform.find("cpu")
    assert 0 < host.memory_gb_s.value < 10_000
    assert host.memory_gb_s.provenance == Provenance.MEASURED
    assert host.cores.value >= 1


def test_what_the_system_says_is_not_called_measured():
    """Cores and caches come from the operating system or a driver: nobody measured them here."""
    host = platforms.of_machine(describe(measure_links=False)).find("cpu")
    assert host.cores.provenance == Provenance.PUBLISHED
    assert host.cores.source == "told by the operating system"
    if host.last_level_cache_mb is not None:
        assert host.last_level_cache_mb.provenance == Provenance.PUBLISHED


def test_an_accelerator_needs_measured_links():
    gpu = {
        "kind": "cuda",
        "name": "GPU",
        "memory_bytes": 1,
        "compute_units": 132,
        "usable": True,
        "reason": "",
    }
    with_gpu = describe(measure_links=False).model_copy(
        update={
            "accelerators": (Accelerator(device="cuda:0", **gpu), Accelerator(device="cuda:1", **gpu)),
            "links": (
                Link(source="cpu", target="cuda:0", bytes_per_s=30e9),
                Link(source="cuda:0", target="cpu", bytes_per_s=20e9),
                Link(source="cuda:0", target="cuda:0", bytes_per_s=4e12),
            ),
        }
    )
    platform = platforms.of_machine(with_gpu)
    assert [device.key for device in platform.device] == ["cpu", "cuda:0"]
    assert platform.link_gb_s("cpu", "cuda:0").value == 20
    assert platform.link_gb_s("cpu", "cuda:0").provenance == Provenance.MEASURED
    assert platform.find("cuda:0").cores.source == "told by its driver"
    assert platform.find("cuda:0").memory_gb_s.value == 4000
    assert platform.find("cpu").memory_gb_s is None


def test_devices_of_mappings_are_found_by_their_kind():
    platform = platforms.load("map-tpds23")
    assert platform.key_of("cpu") == "cpu"
    assert platform.key_of("cuda") == platform.key_of("cuda:0") == "gpu"
    assert platform.key_of("fpga") == platform.key_of("fpga:u200") == "fpga"
    with pytest.raises(UserError, match="device: found none for 'tpu'; allowed: one of cpu, gpu, fpga"):
        platform.key_of("tpu")
    assert platform.cpu_cores == 56


def test_bandwidth_is_that_of_the_memory_the_link_or_both_links():
    platform = platforms.load("map-tpds23")
    assert platform.bytes_per_s("cuda", "cuda") == 550e9
    assert platform.bytes_per_s("cpu", "fpga") == 16e9
    assert platform.bytes_per_s("cuda", "fpga") == pytest.approx(8e9)


@pytest.mark.parametrize(
    ("name", "ends", "field"),
    [
        ("fixar21", ("cpu", "cuda"), "link between 'cpu' and 'gpu'.gb_s"),
        ("fixar21", ("fpga", "fpga"), "device 'fpga'.memory_gb_s"),
    ],
)
def test_a_number_that_a_source_does_not_give_is_refused_by_its_field(name, ends, field):
    with pytest.raises(UserError, match=re.escape(field)):
        platforms.load(name).bytes_per_s(*ends)
    with pytest.raises(UserError, match=r"device 'cpu'\.cores"):
        platforms.load(name).cpu_cores  # noqa: B018


@pytest.mark.parametrize(
    ("platform", "board"), [("ppoaccel", "u200"), ("map-tpds23", "u200"), ("fixar21", "u50")]
)
def test_a_boards_clock_is_the_catalogues(platform, board):
    device = catalogue.device(board)
    stated = platforms.load(platform).find("fpga").clock_mhz
    assert (stated.value, stated.source) == (device.clock_hz / 1e6, device.clock_source)
    assert stated.provenance == Provenance.PUBLISHED


@pytest.mark.parametrize("board", ["u9", 3, [], "agf014"])
def test_a_board_without_a_clock_is_refused(board):
    stated = {"key": "cpu", "kind": "cpu", "name": "x", "clock_mhz": {"board": board}}
    with pytest.raises(UserError, match=r"device\[0\]\.clock_mhz\.board: found .*; allowed: u200, u50"):
        check(platforms.PlatformFile, {"name": "x", "device": [stated]}, "file")


def test_a_new_platform_is_one_file(tmp_path, monkeypatch):
    text = (FILES / "map-tpds23.toml").read_text()
    (tmp_path / "another.toml").write_text(text.replace("map-tpds23", "another"))
    monkeypatch.setattr(platforms.schema, "_FOLDER", tmp_path)
    assert set(platforms.names()) - {"this-machine"} == {"another"}
    assert platforms.load("another").name == "another"


def test_a_transfer_waits_for_the_latency_of_every_link_on_its_way():
    platform = platforms.load("map-tpds23")
    assert platform.latency_s("cpu", "cuda") == platform.latency_s("cuda", "fpga") == 0, "MAP states none"
    millisecond = platforms.SourcedNumber(value=1000, provenance="published", source="test")
    slow = platform.with_latency(millisecond)
    assert slow.latency_s("cpu", "fpga") == pytest.approx(1e-3)
    assert slow.latency_s("cuda", "fpga") == pytest.approx(2e-3)
    assert slow.latency_s("cuda", "cuda") == 0
    faster = slow.with_latency(millisecond.model_copy(update={"value": 5}))
    assert faster == slow, "a stated latency stays"
    authors = platforms.load("pearl24-authors")
    assert authors.latency_s("cpu", "cpu") == pytest.approx(2e-6)
    assert authors.with_latency(millisecond) == authors
