"""What choices lose by the papers' models."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.store.rows import PredictedRate
from placerl.harness.validate.predicted_regret import COLUMNS, NATIVE, judged, summary

NATIVE_MAPPING = "native-native-cpu"


def rate(strategy: str, mapping: str, value: float, noise: float = 0.01, **fields: object) -> PredictedRate:
    return PredictedRate(
        suite="prediction",
        workload="cartpole-dqn",
        primitive="training",
        batch_size=2048,
        quantity="gradient_steps_per_s",
        provenance=Provenance.MODELLED,
        strategy=strategy,
        mapping=mapping,
        value=value,
        low=value * (1 - noise),
        high=value * (1 + noise),
        **fields,  # type: ignore[arg-type]
    )


def test_each_choice_is_judged_by_each_model() -> None:
    rows = [
        rate("map-tpds23", "fpga-fpga-cpu", 400, chosen=True),
        rate("map-tpds23", NATIVE_MAPPING, 100),
        rate("map-tpds23", "native-fpga-cpu", 300),
        rate("pearl24", "fpga-fpga-cpu", 90),
        rate("pearl24", NATIVE_MAPPING, 100, chosen=True),
        rate("pal21", "native-fpga-cpu", 500, chosen=True),
    ]
    by_map, by_prl = judged(rows, "cpu, cuda:x", "cuda:x is elsewhere")
    assert (by_map.best.mapping, by_prl.best.mapping) == ("fpga-fpga-cpu", NATIVE_MAPPING)
    assert {name: loss and round(loss.value, 2) for name, loss in by_map.losses.items()} == {
        NATIVE: 0.75,
        "map-tpds23": 0.0,
        "pearl24": 0.75,
        "pal21": 0.25,
    }
    assert by_prl.losses["map-tpds23"] is not None
    assert by_prl.losses["map-tpds23"].verdict == "lost"
    assert by_prl.losses["pal21"] is None, "its model says nothing of that mapping"
    assert dict(zip(COLUMNS, by_prl.line, strict=True)) == {
        "workload": "cartpole-dqn",
        "batch size": "2,048",
        "devices": "cpu, cuda:x",
        "judged by": "pearl24 (overlapped)",
        "best mapping": NATIVE_MAPPING,
        "gradient steps/s": "100",
        NATIVE: "0.0%",
        "map-tpds23": "10.0%",
        "pearl24": "0.0%",
        "pal21": "–",
    }


def test_inside_the_noise_there_is_no_verdict() -> None:
    rows = [
        rate(
            "map-tpds23", "torch-native-cpu", 100, noise=0.1, status="too_noisy", reason="wide", chosen=True
        ),
        rate("map-tpds23", NATIVE_MAPPING, 95),
    ]
    (cell,) = judged(rows, "cpu", "")
    loss = cell.losses[NATIVE]
    assert loss is not None
    assert loss.verdict == "no verdict"
    assert (cell.line[5], cell.line[6]) == ("~100", "5.0% ?")


def test_of_equal_predictions_the_chosen_mapping_is_the_best() -> None:
    rows = [
        rate("map-tpds23", one, 100, chosen=one.startswith("torch")) for one in ("a-a-cpu", "torch-a-cpu")
    ]
    (cell,) = judged(rows, "cpu", "")
    assert cell.best.mapping == "torch-a-cpu"


def test_the_summary_counts_the_best_mappings_and_has_the_largest_losses() -> None:
    cells = [
        *judged([rate("map-tpds23", NATIVE_MAPPING, 9, chosen=True)], "cpu", ""),
        *judged(
            [rate("map-tpds23", "a-a-a", 20, chosen=True), rate("map-tpds23", NATIVE_MAPPING, 5)], "cpu", ""
        ),
    ]
    assert summary(cells) == [
        f"cpu, by map-tpds23, 2 cells: best {NATIVE_MAPPING} (1), a-a-a (1); at most lost: {NATIVE} 75.0%, "
        "map-tpds23 0.0%."
    ]
