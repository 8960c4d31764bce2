"""The raw format of py-spy is read, whatever a command line holds."""

from placerl.harness.why.stacks import Frame, Stack, parse

LINES = [
    'process 7:"python -c a;b (c:1)";thread (7): MainThread;<module> (/a b/train.py:3);Net.forward (/a b/n.py:9) 12\n',
    'process 7:"python train.py";process 9:"worker";thread (0x1f): ThreadPool;run (/x.py:1) 1\n',
    'process 7:"python train.py";thread (7): MainThread 4\n',
]


def test_stacks_have_their_process_thread_frames_and_count() -> None:
    first, second = parse(LINES)
    frames = (Frame("<module>", "/a b/train.py", 3), Frame("Net.forward", "/a b/n.py", 9))
    assert first == Stack(7, 7, frames, 12)
    assert second == Stack(9, 31, (Frame("run", "/x.py", 1),), 1)
