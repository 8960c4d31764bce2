"""Predicts what machines that are not here would do, from cards: a minute's measurements that people can send."""
