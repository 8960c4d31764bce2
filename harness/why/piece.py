"""Names the parts of a training that time is spent on."""

from enum import StrEnum


class Piece(StrEnum):
    """A part of a training. Each sample of the training thread belongs to one of them."""

    ENVIRONMENT = "environment"
    INFERENCE = "inference"
    INSERTION = "insertion"
    SAMPLING = "sampling"
    PRIORITIES = "priorities"
    GRADIENT = "gradient step"
    TRANSFERS = "transfers"
    WAITING = "waiting"
    EVALUATION = "evaluation"
    LOGGING = "logging"
    START = "start-up"
    OTHER = "other code"
