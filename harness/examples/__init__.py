"""Programs as a user would write them."""
