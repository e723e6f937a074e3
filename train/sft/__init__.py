"""The SFT ranker, with which Table 5 of the paper compares reinforcement learning: `python -m train.sft`."""
