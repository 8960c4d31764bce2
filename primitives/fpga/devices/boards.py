"""The boards whose clock cycles are told as seconds."""

CLOCKS_HZ = {"u200": 285e6, "u50": 164e6}
"""The clock of each board, Hz: an assumption about these designs, not a result. On an Alveo U200 PPO's runs at 285 MHz
(PPO 5.2; MAP gives none for its own), on a U50 FIX's at 164 MHz (FIX VI-A)."""
