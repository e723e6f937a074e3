"""Models behind endpoints or in folders: language models, embedders, claim checkers, and a cache of their replies."""
