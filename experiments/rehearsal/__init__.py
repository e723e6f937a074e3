"""`make rehearse`: training as a profile of the GPU lane has it, on a CPU, with a tiny model."""
