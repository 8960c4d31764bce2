"""Known causes of slow training: what shows each, and what its repair would bring."""
