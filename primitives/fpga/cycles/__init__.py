"""Cycle models as pure functions: the papers' formulas (`modelled`), and where the RTL here differs and why."""
