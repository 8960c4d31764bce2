"""What every room uses: errors, progress, provenance, a row of the store, the revision of the code."""
