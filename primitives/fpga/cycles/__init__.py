"""Cycle models as pure functions: the papers' formulas (`modelled`), and how and why the RTL here differs."""
