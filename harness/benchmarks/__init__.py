"""The cases of `harness.cases` for asv (`asv.conf.json`) and pytest-benchmark, which define none of their own."""
