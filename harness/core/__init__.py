"""What every room uses: errors, progress, provenance, rows of the store, the revision of the code."""
