"""The paper's rewards as pure functions of a trajectory (section 3.3.2), and verl's entry to them."""
