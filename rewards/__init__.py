"""The paper's rewards (section 3.3.2) as pure functions of a trajectory, and the reward function that verl calls."""
