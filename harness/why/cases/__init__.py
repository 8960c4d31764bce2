"""Training scripts with causes of slowness that can be planted into them (`cases.toml`)."""
