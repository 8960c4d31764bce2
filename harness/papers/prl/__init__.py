"""PEARL (paper key PRL): deep reinforcement learning composed from portable primitives."""
