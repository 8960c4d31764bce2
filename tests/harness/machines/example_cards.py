"""A card as one that was measured, for tests."""

from placerl.harness.machines.card import Card, Facts, Figure
from placerl.harness.platforms.machine import Cache

FIGURES = {
    "interpreter": (4.4e-6, "s"),
    "call.native": (70e-9, "s"),
    "call.numpy": (430e-9, "s"),
    "call.torch": (960e-9, "s"),
    "multiply_add.float32": (118e9, "FLOP/s"),
    "multiply_add.float32.all": (236e9, "FLOP/s"),
    "product.float32": (97e9, "FLOP/s"),
    "product.float64": (50e9, "FLOP/s"),
    "copy.16KiB": (197e9, "B/s"),
    "copy.256KiB": (107e9, "B/s"),
    "copy.4MiB": (95e9, "B/s"),
    "copy.32MiB": (28e9, "B/s"),
    "copy.256MiB": (24e9, "B/s"),
    "latency.16KiB": (1.4e-9, "s"),
    "latency.256KiB": (4.4e-9, "s"),
    "latency.4MiB": (125e-9, "s"),
    "latency.32MiB": (173e-9, "s"),
    "latency.256MiB": (307e-9, "s"),
    "hand_over.native": (1.1e-6, "s"),
    "hand_over.python": (7.5e-6, "s"),
    "environment.CartPole-v1": (24e6, "1/s"),
    "opencl.peak": (150e9, "FLOP/s"),
    "noise.again": (1.0, "1"),
}


def a_card(**times: float) -> Card:
    """Return a card; `times` multiply figures, whose dots are written as underscores."""
    factors = {name: times.get(name.replace(".", "_"), 1.0) for name in FIGURES}
    figures = [
        Figure(name=name, unit=unit, value=value * f, low=value * f * 0.99, high=value * f * 1.01)
        for (name, (value, unit)), f in zip(FIGURES.items(), factors.values(), strict=True)
    ]
    facts = Facts(
        cpu="A processor",
        architecture="x86_64",
        system="Linux",
        physical_cores=2,
        logical_cores=2,
        usable_cores=2,
        quota_cores=None,
        simd_level="avx2",
        vector_flags=("avx", "avx2"),
        caches=(Cache(level=1, kind="data", size_bytes=2**15, line_bytes=64, shared_by_cores=1),),
        memory_gib=24,
        accelerators={},
        versions={"placerl": "0.2.0", "python": "3.11.9"},
    )
    card = Card(format=Card.FORMAT, facts=facts, noise_score=1.01, wall_s=50.0, figures=tuple(figures))
    return card.sealed()
