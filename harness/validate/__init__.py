"""Predicted against achieved: the error of each prediction and the regret of each choice."""
