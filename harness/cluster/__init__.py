"""Uses several machines through Ray: to measure the parts of a plan, and to train. Needs the extra `cluster`."""

import os

START_LIMIT_S = 300
"""Seconds that a node may take to start: a busy machine needs more than Ray's default of half a minute."""

# Ray reads the first variable when it is imported, which happens later in this package. Ray waits 15 s for its
# agents to start, which no setting changes (https://github.com/ray-project/ray/issues/65983).
os.environ.setdefault("RAY_raylet_start_wait_time_s", str(START_LIMIT_S))
os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(START_LIMIT_S))
