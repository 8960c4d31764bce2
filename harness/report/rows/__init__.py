"""The rows of the tables that the page and the exported files share, one module per subject."""
