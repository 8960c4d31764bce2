"""What files of checks share: how errors and results of a library's own buffer and ours are compared."""

from contextlib import contextmanager


def failure(call):
    """Return the name of the error that a call raises; empty if it raises none."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return ""


def refused(call):
    """Return whether a call raises an error."""
    return bool(failure(call))


def message(call, error_type):
    """Return the message of the error that a call raises; fail if it is of another type or there is none."""
    try:
        call()
    except error_type as error:
        return str(error)
    raise AssertionError(f"found no {error_type}")


def same_results(kinds, work):
    """Return what the work returns for the library's own buffer, after checking that it returns the same for ours.

    Args:
        kinds: the library's own class and ours.
        work: takes a class.
    """
    own, ours = (work(kind) for kind in kinds)
    assert own == ours, (own, ours)
    return own


@contextmanager
def raises(kind, *texts):
    """Fail unless the block raises an error of a kind whose message has all the texts."""
    message = None
    try:
        yield
    except kind as error:
        message = str(error)
    assert message is not None, f"{kind.__name__} was not raised"
    assert all(text in message for text in texts), message
