"""Past one machine: the cells of a run on a Ray cluster. Needs the extra `cluster`."""

import os

START_LIMIT_S = 300
"""How long a node may take to start: a busy machine needs more than the half a minute that Ray would give it."""

# Ray reads the first as it is imported, which whatever is in this package does later. Of its agents' start it waits for
# 15 s, come what may (https://github.com/ray-project/ray/issues/65983).
os.environ.setdefault("RAY_raylet_start_wait_time_s", str(START_LIMIT_S))
os.environ.setdefault("RAY_gcs_server_port_wait_time_s", str(START_LIMIT_S))
