"""Export the results of a training run as plain model folders and adapters."""
