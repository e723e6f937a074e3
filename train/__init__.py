"""Training: curriculum rows, GRPO through verl, the nano base."""
