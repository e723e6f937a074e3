"""Original packages as rows of the bench: their own prompts, in their own environments, asked through our client."""
