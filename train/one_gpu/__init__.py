"""GRPO of a small Llama in one process on one GPU, without verl, ray and vLLM."""
