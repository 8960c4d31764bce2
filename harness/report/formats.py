"""Names the formats of an export, without loading what writes them."""

EXPORTED = ("csv", "parquet", "markdown", "latex")
"""Names of the formats of `placerl export`."""
