"""Writes trees of files as the kernel shows control groups, in a folder that stands for `/`."""

from pathlib import Path

V2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"
OTHERS = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n22 1 8:1 / / rw - ext4 /dev/sda1 rw"


def v1(*controllers: str, shown: str = "/") -> str:
    """Return the line of `mountinfo` for a hierarchy of version 1."""
    names = ",".join(controllers)
    return f"35 31 0:32 {shown} /sys/fs/cgroup/{names} rw,relatime - cgroup cgroup rw,{names}"


def proc(root: Path, cgroup: str, *mounts: str) -> None:
    """Write which groups this process is in, and what is mounted."""
    write(root, **{"proc/self/cgroup": cgroup, "proc/self/mountinfo": "\n".join((*mounts, OTHERS))})


def write(root: Path, **files: str) -> None:
    """Write files by their paths, each with a line break at the end."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
