"""The primitive x device table: measured on devices that are here, simulated on those that are not."""
