"""Train a small Llama with GRPO in one process on one GPU, without verl, ray and vLLM."""
