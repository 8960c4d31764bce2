"""PyTorch's threads: more of them than the networks have work for."""

import numpy as np

from placerl.harness.why.causes.base import Evidence, Finding
from placerl.harness.why.recording import AS_IT_WAS, MAIN, ONE_THREAD


class OversubscribedThreads:
    """PyTorch's threads cost more than they bring: the speed with one thread was measured in the script itself.

    The script's kinds of steps differ in how much they gain, and the turns need not hold them in the script's
    proportions. So the mean time of each kind in the turns is weighted with how often the kind occurs.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        steps = evidence.recording.steps
        if ONE_THREAD not in steps:
            return None
        counts = [steps[table].counts for table in (AS_IT_WAS, ONE_THREAD)]
        seen = np.minimum(*counts) > 0
        if not seen.any():
            return None
        weights = np.where(seen, steps[MAIN].counts, 0)
        before, after = (
            float((weights * steps[table].seconds / np.maximum(count, 1)).sum())
            for table, count in zip((AS_IT_WAS, ONE_THREAD), counts, strict=True)
        )
        if not after:
            return None
        threads = max(fact["torch"] for fact in evidence.facts("threads"))
        because = f"measured in turns with {threads} threads and with one"
        return Finding("oversubscribed threads", "call torch.set_num_threads(1)", before / after, because)
