"""Supervised fine-tuning (`python -m train.sft`): the SFT ranker of the paper's Table 5, or a cold start."""
