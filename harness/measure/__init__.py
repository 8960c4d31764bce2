"""The timing protocol, its statistics, summary rows, and the conditions under which a number was measured."""
