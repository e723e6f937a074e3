"""What a run asks of verl's rollouts on any machine: seeds that depend on no arrival, and an eye on their weights."""
