"""Compares predicted training throughputs with measured ones.

The results are the error of each prediction, and how much throughput is lost by each performance model's choice of
where learner, replay management and storage run.
"""
