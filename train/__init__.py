"""Training: curriculum rows, GRPO and supervised fine-tuning with verl, and the nano base."""

import rag_zeval  # noqa: F401 (first of all: see what it does with Ctrl-C)
