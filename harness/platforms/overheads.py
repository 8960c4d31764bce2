"""Fills in what it costs a host to begin an operation, where a platform's file does not state it.

A roofline without this cost predicts small networks many times too fast: a step of CartPole's learner has 39 operations
of almost no arithmetic.
"""

from placerl.harness.core.provenance import Provenance
from placerl.harness.platforms.schema import PlatformDevice, PlatformFile, SourcedNumber

UNSTATED: dict[str, tuple[str, SourcedNumber]] = {
    "gpu": (
        "launch_us",
        SourcedNumber(
            value=7.8,
            provenance=Provenance.MEASURED,
            source="on another device: PyTorch's gradient steps on an NVIDIA H200, 5.1 to 9.8 us an operation",
        ),
    ),
    "cpu": (
        "dispatch_us",
        SourcedNumber(
            value=1.6,
            provenance=Provenance.MEASURED,
            source="on another device: an addition of 8 floats in PyTorch 2.13 on one core of an AMD EPYC (Zen 3)",
        ),
    ),
}
"""By kind of device the field, in microseconds, and the number measured on the nearest device that was measured."""


def completed(platform: PlatformFile) -> tuple[PlatformFile, tuple[str, ...]]:
    """Return a platform with every overhead stated, and a sentence for each that was filled in.

    Returns:
        The platform, whose filled-in numbers name the device on which they were measured, and the sentences.
    """
    said = []

    def complete(device: PlatformDevice) -> PlatformDevice:
        field, number = UNSTATED.get(device.kind, ("", None))
        if number is None or getattr(device, field) is not None:
            return device
        said.append(
            f"{platform.name}: device {device.key!r}.{field}: found nothing; taken {number.value:g} us, "
            f"{number.provenance} {number.source}; state yours to replace it"
        )
        return device.model_copy(update={field: number})

    devices = tuple(map(complete, platform.device))
    return platform.model_copy(update={"device": devices}), tuple(said)
