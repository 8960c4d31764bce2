"""PAL: parallel actors and learners on one concurrent replay."""
