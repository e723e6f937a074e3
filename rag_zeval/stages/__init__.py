"""What the stages of the checkout share and the judge does not need."""
