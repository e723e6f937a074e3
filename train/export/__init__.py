"""What a training run leaves: plain model folders, adapters."""
