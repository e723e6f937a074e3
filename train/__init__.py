"""Training: curriculum rows, GRPO and supervised lessons through verl, the nano base."""
