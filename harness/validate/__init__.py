"""Compares predictions with measured runs: the error of each prediction, and what each strategy's choice loses."""
