"""Code that the stages of the pipeline share and the judge does not need."""
